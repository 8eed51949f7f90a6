/* tools/memory/print.c - prints devices, steps, owners, blocks not freed and the timeline. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "memory/memory.h"
#include "share/unrecorded.h"
#include "store/kit/saturate.h"
#include "ui/cli.h"
#include "ui/grid.h"
#include "ui/host.h"

/* Print a section and empty the grid. */
static int print(const struct memory *memory, struct grid *grid, const char *section,
		 const char *title)
{
	static const char *const few[] = { "Freed", "Frees",	"Peak as told", "Rank",
					   "Pid",   "Reserved", "Allocs",	NULL };
	bool failed = grid->failed;

	grid->few = few;
	grid->none = "-";
	/* A program gets the head of the first section also without rows, a host those of all. */
	if (!failed && (grid->cells || ((cli_host || !strcmp(section, "device")) &&
					!cli_for_people(memory->survey.format)))) {
		if (cli_for_people(memory->survey.format) && title)
			grid_title(stdout, memory->survey.format, title);
		grid->width = memory->survey.width;
		grid_print(grid, stdout, memory->survey.format,
			   cli_for_people(memory->survey.format) ? NULL : section);
	}
	grid_release(grid);
	return failed ? -ENOMEM : 0;
}

static void put_pool(const struct memory *memory, struct grid *grid, uint32_t number)
{
	const struct pfw_memory_pool *pool = &memory->sums.pool[number];
	char text[64];

	grid_maybe(grid, GRID_ID, pool->rank >= 0, pool->rank);
	snprintf(text, sizeof(text), "%" PRIu64, pool->pid);
	grid_text(grid, text, strlen(text));
	if (pool->device == 0)
		strcpy(text, "cpu");
	else if (pool->device == 1)
		snprintf(text, sizeof(text), "cuda:%" PRId64, pool->device_index);
	else
		snprintf(text, sizeof(text), "%" PRId64 ":%" PRId64, pool->device,
			 pool->device_index);
	grid_text(grid, text, strlen(text));
}

/* clang-format off */
#define POOL_COLUMNS                                                                               \
	{ "rank", "Rank", GRID_ID }, { "pid", "Pid", GRID_TEXT }, { "device", "Device", GRID_TEXT }
#define BLOCK_COLUMNS                                                                              \
	POOL_COLUMNS, { "addr", "Address", GRID_TEXT }, { "bytes", "Bytes", GRID_BYTES }
/* clang-format on */

static void put_owner(const struct memory *memory, struct grid *grid, uint32_t number)
{
	const struct pfw_text_id *name = &memory->sums.names.name[number];

	grid_text(grid, number ? name->text : NULL, name->bytes);
}

static void put_block(const struct memory *memory, struct grid *grid,
		      const struct pfw_memory_block *block)
{
	char text[32];

	put_pool(memory, grid, block->pool);
	snprintf(text, sizeof(text), "0x%" PRIx64, block->addr);
	grid_text(grid, text, strlen(text));
}

/* ---- sections ---- */

static int print_pools(const struct memory *memory)
{
	static const struct grid_column columns[] = {
		POOL_COLUMNS,
		{ "allocations", "Allocs", GRID_COUNT },
		{ "allocated_bytes", "Allocated", GRID_BYTES },
		{ "frees", "Frees", GRID_COUNT },
		{ "freed_bytes", "Freed", GRID_BYTES },
		{ "peak_bytes", "Peak", GRID_BYTES },
		{ "peak_ts", NULL, GRID_TS },
		{ "peak_allocated_bytes", "Peak as told", GRID_BYTES },
		{ "peak_reserved_bytes", "Reserved", GRID_BYTES },
		{ "end_bytes", "At the end", GRID_BYTES },
		{ "unfreed", "Not freed", GRID_COUNT },
		{ "unfreed_bytes", "Bytes", GRID_BYTES },
		{ "unknown_frees", NULL, GRID_COUNT },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };

	for (uint32_t i = 0; i < memory->sums.pools; i++) {
		const struct pfw_memory_pool *pool = &memory->sums.pool[i];

		put_pool(memory, &grid, i);
		GRID_PUT(&grid, pool->allocations, pool->allocated_bytes, pool->frees,
			 pool->freed_bytes, pool->peak,
			 pool->peak != 0 ? pool->peak_ts_ns : GRID_NO,
			 pool->most_allocated >= 0 ? pool->most_allocated : GRID_NO,
			 pool->most_reserved >= 0 ? pool->most_reserved : GRID_NO, pool->live,
			 pool->unfreed, pool->unfreed_bytes, pool->unknown);
	}
	return print(memory, &grid, "device", NULL);
}

static int print_steps(const struct memory *memory)
{
	static const struct grid_column columns[] = {
		POOL_COLUMNS,
		{ "step", "Step", GRID_ID },
		{ "allocations", "Allocs", GRID_COUNT },
		{ "growth_bytes", "Growth", GRID_BYTES },
		{ "peak_bytes", "Peak", GRID_BYTES },
		{ "end_bytes", "At its end", GRID_BYTES },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };

	for (size_t i = 0; i < memory->sums.steps; i++) {
		const struct pfw_memory_step *step = &memory->sums.step[i];

		put_pool(memory, &grid, step->pool);
		GRID_PUT(&grid, step->step, step->allocations, step->growth, step->peak,
			 step->live);
	}
	return print(memory, &grid, "step", "Growth in each step");
}

static int by_bytes(const void *a, const void *b, void *user)
{
	const struct memory *memory = user;
	const struct pfw_memory_owner *owner = memory->sums.owner;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return PFW_ORDER(owner[y].bytes, owner[x].bytes)
		       ?: strcmp(memory->sums.names.name[x].text, memory->sums.names.name[y].text);
}

static int print_owners(const struct memory *memory)
{
	static const struct grid_column columns[] = {
		{ "name", "Allocated by", GRID_TEXT },
		{ "allocations", "Allocs", GRID_COUNT },
		{ "allocated_bytes", "Bytes", GRID_BYTES },
		{ "greatest_bytes", "Greatest", GRID_BYTES },
		{ "unfreed", "Not freed", GRID_COUNT },
		{ "unfreed_bytes", "Bytes", GRID_BYTES },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };
	uint32_t *order = calloc(memory->sums.names.count + 1, sizeof(*order)), count = 0;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < memory->sums.names.count; i++) {
		if (memory->sums.owner[i].allocations)
			order[count++] = i;
	}
	qsort_r(order, count, sizeof(*order), by_bytes, (void *)memory);
	for (uint32_t i = 0; i < count; i++) {
		const struct pfw_memory_owner *owner = &memory->sums.owner[order[i]];

		if (memory->survey.row_limit >= 0 && i >= memory->survey.row_limit)
			break;
		put_owner(memory, &grid, order[i]);
		GRID_PUT(&grid, owner->allocations, owner->bytes, owner->greatest, owner->unfreed,
			 owner->unfreed_bytes);
	}
	free(order);
	return print(memory, &grid, "owner", "Who allocates");
}

/* As TensorBoard's table of memory events. */
static int print_lives(const struct memory *memory)
{
	static const struct grid_column columns[] = {
		BLOCK_COLUMNS,
		{ "ts", "Allocated", GRID_TS },
		{ "freed_ts", "Freed", GRID_TS },
		{ "dur", "Duration", GRID_NS },
		{ "step", "Step", GRID_ID },
		{ "name", "Allocated by", GRID_TEXT },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };

	for (size_t i = 0; i < memory->sums.lives; i++) {
		const struct pfw_memory_life *life = &memory->sums.life[i];
		const struct pfw_memory_block *block = &life->block;

		put_block(memory, &grid, block);
		GRID_PUT(&grid, block->bytes, block->ts_ns, life->freed ? life->freed_ns : GRID_NO,
			 life->freed ? pfw_saturate_sub(life->freed_ns, block->ts_ns) : GRID_NO,
			 block->step != PFW_MEMORY_NO_STEP ? (int64_t)block->step : GRID_NO);
		put_owner(memory, &grid, block->owner);
	}
	return print(memory, &grid, "block", "Blocks, the greatest first");
}

static int print_unfreed(const struct memory *memory)
{
	static const struct grid_column columns[] = {
		BLOCK_COLUMNS,
		{ "ts", NULL, GRID_TS },
		{ "step", "Step", GRID_ID },
		{ "name", "Allocated by", GRID_TEXT },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };

	for (size_t i = 0; i < memory->sums.unfreeds; i++) {
		const struct pfw_memory_block *block = &memory->sums.unfreed[i];

		if (memory->survey.row_limit >= 0 && i >= (size_t)memory->survey.row_limit)
			break;
		put_block(memory, &grid, block);
		GRID_PUT(&grid, block->bytes, block->ts_ns,
			 block->step != PFW_MEMORY_NO_STEP ? (int64_t)block->step : GRID_NO);
		put_owner(memory, &grid, block->owner);
	}
	return print(memory, &grid, "unfreed", "Not freed, the greatest first");
}

/* ---- the timeline ---- */

static int print_course(const struct memory *memory)
{
	static const struct grid_column columns[] = {
		POOL_COLUMNS,
		{ "ts", "Time", GRID_TS },
		{ "peak_bytes", "Peak", GRID_BYTES },
		{ "end_bytes", "At its end", GRID_BYTES },
		{ "reserved_bytes", "Reserved", GRID_BYTES },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };

	for (uint32_t i = 0; i < memory->sums.pools; i++) {
		const struct pfw_memory_pool *pool = &memory->sums.pool[i];

		for (uint64_t j = 0; j < pool->bins; j++) {
			put_pool(memory, &grid, i);
			GRID_PUT(&grid,
				 memory->sums.least_ns +
					 (int64_t)j * pfw_memory_bin_ns(&memory->sums),
				 pool->bin[j].peak, pool->bin[j].live,
				 pool->bin[j].reserved >= 0 ? pool->bin[j].reserved : GRID_NO);
		}
	}
	return print(memory, &grid, "time", "In the course of time");
}

/* Why figures are not known, and what would record them. */
static void print_unrecorded(const struct memory *memory)
{
	bool allocated = false, reserved = false, any = false;

	for (size_t i = 0; i < memory->sums.pools; i++) {
		allocated |= memory->sums.pool[i].most_allocated >= 0;
		reserved |= memory->sums.pool[i].most_reserved >= 0;
	}
	if (!memory->sums.pools || !cli_for_people(memory->survey.format) ||
	    (allocated && reserved))
		return;
	unrecorded_say(allocated  ? "Reserved"
		       : reserved ? "Peak as told"
				  : "Peak as told, Reserved",
		       UNRECORDED_ALLOCATOR, select_args_but_rank(&memory->select), &any);
}

int memory_print(const struct memory *memory)
{
	int error = print_pools(memory);

	if (!error && (memory->survey.format == CLI_CSV || memory->survey.format == CLI_TSV))
		return error; /* one table a file; ndjson has the others */
	error = error ?: print_steps(memory) ?: print_owners(memory);
	error = error ?: print_unfreed(memory);
	error = error || !memory->lives_most ? error : print_lives(memory);
	error = error ?: print_course(memory);
	if (!error)
		print_unrecorded(memory);
	return error;
}

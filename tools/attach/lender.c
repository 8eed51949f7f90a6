/* tools/attach/lender.c - leads the dynamic linker's allocations through stub.c: see inject.h. */
#include "attach/inject.h"

#include <elf.h>
#include <string.h>

#include "attach/stub.h"
#include "attach/tracee.h"

#define PAGE_BYTES 0x1000u
#define PLACE_MOST 0x8000u
#define PLACE_LEAST 0x5000u   /* loading the recorder takes 10 KiB */
#define PLACE_SMALL 0x4000u   /* mostly enough */
#define BEFORE_DLERROR 0x400u /* the function that allocates lies beside dlerror() */

static const char *const names[STUB_ALLOCATOR] = {
	[STUB_MALLOC] = "malloc",
	[STUB_CALLOC] = "calloc",
	[STUB_REALLOC] = "realloc",
	[STUB_FREE] = "free",
};

/* Where the first object begins whose path has this part; 0 = none. */
static uint64_t find_object(const struct tracee *tracee, const char *path)
{
	for (size_t i = 0; i < tracee->maps; i++)
		if (!tracee->map[i].offset && strstr(tracee->map[i].path, path))
			return tracee->map[i].start;
	return 0;
}

static uint64_t find_linker(const struct tracee *tracee)
{
	return find_object(tracee, "/ld-");
}

static uint64_t find_libc(const struct tracee *tracee, uint64_t inside)
{
	const struct tracee_map *map = tracee_map_of(tracee, inside);

	return map ? find_object(tracee, map->path) : 0;
}

/* Write `to` into the words of an object's data that hold `from`.  False: there are none. */
static bool change(const struct tracee *tracee, uint64_t object, uint64_t from, uint64_t to)
{
	uint64_t words[512], at, end;
	Elf64_Phdr data;
	bool any = false;

	if (!object || !tracee_segment(tracee, object, PT_LOAD, PF_W, &data))
		return false;
	at = object + (data.p_vaddr & ~UINT64_C(7));
	end = object + data.p_vaddr + data.p_filesz;
	while (at < end) {
		size_t bytes = end - at < sizeof(words) ? (end - at) & ~UINT64_C(7) : sizeof(words);

		if (!bytes || !tracee_read(tracee, at, words, bytes))
			break;
		for (size_t i = 0; i < bytes / 8; i++)
			if (words[i] == from)
				any |= from == to ||
				       tracee_write(tracee, at + i * 8, &to, sizeof(to));
		at += bytes;
	}
	return any;
}

/* The allocator to which the dynamic linker's pointers lead. */
static bool find_real(const struct tracee *tracee, uint64_t real[STUB_ALLOCATOR])
{
	uint64_t linker = find_linker(tracee);

	for (unsigned i = 0; i < STUB_ALLOCATOR; i++) {
		size_t at = 0;

		do
			real[i] = tracee_export(tracee, &at, names[i]);
		while (real[i] && !change(tracee, linker, real[i], real[i]));
		if (!real[i])
			return false;
	}
	return true;
}

bool lender_begin(const struct tracee *tracee, const struct lender *lender)
{
	uint64_t dlerror = tracee_function(tracee, "dlerror"), linker = find_linker(tracee),
		 libc = find_libc(tracee, dlerror);
	struct stub_functions to = stub_functions(lender->place);
	struct stub_lender state;

	if (!lender->state || !tracee_read(tracee, lender->state, &state, sizeof(state)))
		return false;
	if (!state.from) {
		state = (struct stub_lender){ .from = dlerror - BEFORE_DLERROR };
		if (!find_real(tracee, state.real) ||
		    !tracee_write(tracee, lender->state, &state, sizeof(state)) ||
		    !tracee_write(tracee, lender->word, &lender->state, sizeof(lender->state)))
			return false;
	}
	/* free() first: a block comes back to whom it came from. */
	change(tracee, libc, state.real[STUB_FREE], to.of[STUB_FREE]);
	change(tracee, libc, state.real[STUB_MALLOC], to.libc_malloc);
	for (unsigned i = STUB_ALLOCATOR; i-- > 0;)
		change(tracee, linker, state.real[i], to.of[i]);
	return true;
}

static bool is_library(const struct tracee_map *map)
{
	return strstr(map->path, ".so");
}

static bool is_memory(const struct tracee_map *map)
{
	return !map->path[0] && map->writable && !map->executable;
}

static void take(struct stub_values *values, uint64_t place, uint64_t bytes)
{
	values->lent = place;
	values->lent_bytes = bytes;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void lender_place(const struct tracee *tracee, struct stub_values *values)
{
	const struct tracee_map *map = tracee->map;
	unsigned best = 0;

	take(values, tracee_free_place(tracee, PLACE_MOST), PLACE_MOST);
	for (size_t i = 1; i + 1 < tracee->maps && best < 3; i++) {
		/* A page between two maps keeps them apart. */
		uint64_t above = map[i + 1].start - map[i].end,
			 below = map[i].start - map[i - 1].end,
			 bytes = least(above - PAGE_BYTES, PLACE_MOST);

		if (!is_memory(&map[i]))
			continue;
		if (!below && above > PLACE_LEAST &&
		    (is_library(&map[i - 1]) || !strcmp(map[i + 1].path, "[heap]"))) {
			take(values, map[i].end, bytes);
			values->grows = PAGE_BYTES;
			best = 3;
		} else if (!above && is_library(&map[i + 1]) && below > PLACE_LEAST) {
			bytes = least(below - PAGE_BYTES, PLACE_MOST);
			take(values, map[i].start - bytes, bytes);
			best = 2;
		} else if (best < 2 &&
			   ((above > PLACE_LEAST && (below || !map[i - 1].path[0])) ||
			    (above >= PLACE_SMALL && !below && is_library(&map[i - 1])))) {
			take(values, map[i].end, bytes); /* not behind the program, as the heap */
			best = 1;
		}
	}
}

void lender_end(const struct tracee *tracee, const struct lender *lender)
{
	uint64_t libc = find_libc(tracee, tracee_function(tracee, "dlerror"));
	struct stub_functions to = stub_functions(lender->place);
	struct stub_lender state;

	if (!lender->state || !tracee_read(tracee, lender->state, &state, sizeof(state)) ||
	    !state.from || state.end)
		return;
	change(tracee, libc, to.libc_malloc, state.real[STUB_MALLOC]);
	change(tracee, libc, to.of[STUB_FREE], state.real[STUB_FREE]);
	for (unsigned i = 0; i < STUB_ALLOCATOR; i++)
		change(tracee, find_linker(tracee), to.of[i], state.real[i]);
}

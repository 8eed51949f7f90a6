/* tools/attach/padding.c - finds places in loaded objects that nothing uses: see inject.h.
 *
 * Segments are mapped in whole pages.  The bytes after a segment's end are mapped and unused, except in
 * the dynamic linker, which uses its own.
 */
#include "attach/inject.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/tracee.h"

#define NEEDED_MAX 64u
#define NAME_MAX_BYTES 64u
#define PAGE_BYTES 4096u	  /* of the recorder's own place for jumps */
#define REACH (UINT64_C(1) << 30) /* a jump's distance to its word has 31 bits */

/* The names of the libraries that the program was linked with. */
struct needed {
	char name[NEEDED_MAX][NAME_MAX_BYTES];
	size_t count;
};

/* ---- objects ---- */

/* Where what the headers call address 0 is. */
static uint64_t bias_of(const struct tracee *tracee, uint64_t base)
{
	Elf64_Ehdr header;

	return tracee_read(tracee, base, &header, sizeof(header)) && header.e_type == ET_EXEC
		       ? 0
		       : base;
}

static void read_needed(const struct tracee *tracee, uint64_t base, struct needed *needed)
{
	uint64_t bias = bias_of(tracee, base), strings = 0, offset[NEEDED_MAX];
	size_t count = 0;
	Elf64_Phdr dynamic;
	Elf64_Dyn entry;

	if (!tracee_segment(tracee, base, PT_DYNAMIC, 0, &dynamic))
		return;
	for (uint64_t at = bias + dynamic.p_vaddr;
	     tracee_read(tracee, at, &entry, sizeof(entry)) && entry.d_tag != DT_NULL;
	     at += sizeof(entry)) {
		if (entry.d_tag == DT_STRTAB)
			strings = entry.d_un.d_ptr + (entry.d_un.d_ptr < base ? bias : 0);
		else if (entry.d_tag == DT_NEEDED && count < NEEDED_MAX)
			offset[count++] = entry.d_un.d_val;
	}
	for (size_t i = 0; i < count; i++) {
		char *name = needed->name[needed->count];

		needed->count += tracee_read(tracee, strings + offset[i], name, NAME_MAX_BYTES) &&
				 memchr(name, '\0', NAME_MAX_BYTES) != NULL;
	}
}

/* A file's name may have more parts of its version than the library's: libstdc++.so.6.0.30. */
static bool is_needed(const struct needed *needed, const char *path)
{
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; slash && i < needed->count; i++) {
		size_t bytes = strlen(needed->name[i]);

		if (!strncmp(slash + 1, needed->name[i], bytes) &&
		    (!slash[1 + bytes] || slash[1 + bytes] == '.'))
			return true;
	}
	return false;
}

/* The rest of the last page of the last segment that has this flag. */
static void find_rest(const struct tracee *tracee, uint64_t base, uint32_t flag, uint64_t *start,
		      uint64_t *bytes)
{
	Elf64_Phdr segment;
	const struct tracee_map *map;
	uint64_t end;

	*start = *bytes = 0;
	if (!tracee_segment(tracee, base, PT_LOAD, flag, &segment))
		return;
	end = (bias_of(tracee, base) + segment.p_vaddr + segment.p_memsz + 15) & ~UINT64_C(15);
	map = tracee_map_of(tracee, end - 16);
	if (!map || !(flag == PF_X ? map->executable : map->writable))
		return;
	*start = end;
	*bytes = -end & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

size_t padding_list(const struct tracee *tracee, struct padding *out)
{
	struct needed *needed = calloc(1, sizeof(*needed));
	char path[40], program[PATH_MAX] = "";
	size_t count = 0;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)tracee->pid);
	if (!needed || readlink(path, program, sizeof(program) - 1) < 0)
		program[0] = '\0';
	for (size_t i = 0; needed && i < tracee->maps; i++)
		if (!tracee->map[i].offset && !strcmp(tracee->map[i].path, program))
			read_needed(tracee, tracee->map[i].start, needed);
	for (size_t i = 0; needed && i < tracee->maps && count < PADDINGS_MAX; i++) {
		const struct tracee_map *map = &tracee->map[i];
		bool linker = strstr(map->path, "/ld-") != NULL;

		if (map->offset || map->path[0] != '/' || strstr(map->path, "/libpfw"))
			continue;
		find_rest(tracee, map->start, PF_X, &out[count].code, &out[count].code_bytes);
		find_rest(tracee, map->start, PF_W, &out[count].data, &out[count].data_bytes);
		out[count].stays = linker || !strcmp(map->path, program) ||
				   tracee_is_libc(tracee, out[count].code - 16) ||
				   is_needed(needed, map->path);
		if (linker || out[count].data_bytes < PADDING_LENDER)
			out[count].data = out[count].data_bytes = 0;
		else
			out[count].data_bytes -= PADDING_LENDER;
		count += out[count].code_bytes || out[count].data_bytes;
	}
	free(needed);
	return count;
}

/* ---- jumps ---- */

struct jump {
	unsigned char code[2]; /* jmp *distance(%rip) */
	int32_t distance;
	unsigned char rest[2]; /* int3 */
} __attribute__((packed));
_Static_assert(sizeof(struct jump) == 8, "as large as its word");

static bool read_jump(const struct tracee *tracee, uint64_t at, struct jump *jump)
{
	return tracee_read(tracee, at, jump, sizeof(*jump)) && jump->code[0] == 0xff &&
	       jump->code[1] == 0x25 && jump->rest[0] == 0xcc && jump->rest[1] == 0xcc;
}

/* The jumps that lie from `code` on, all of which have the same distance. */
static struct pfw_attach_thunks find_thunks(const struct tracee *tracee, uint64_t code,
					    uint64_t bytes)
{
	struct pfw_attach_thunks found = { .code = code };
	struct jump first, next;

	if (bytes < sizeof(first) || !read_jump(tracee, code, &first))
		return found;
	found.words = code + 6 + (uint64_t)(int64_t)first.distance;
	do
		found.count++;
	while ((found.count + 1) * sizeof(first) <= bytes &&
	       read_jump(tracee, code + found.count * sizeof(next), &next) &&
	       next.distance == first.distance);
	return found;
}

static bool lay(const struct tracee *tracee, const struct pfw_attach_thunks *thunks)
{
	struct jump jump = { { 0xff, 0x25 },
			     (int32_t)(thunks->words - thunks->code - 6),
			     { 0xcc, 0xcc } };
	static const uint64_t none;

	for (uint64_t i = 0; i < thunks->count; i++)
		if (!tracee_write(tracee, thunks->words + i * 8, &none, sizeof(none)) ||
		    !tracee_write(tracee, thunks->code + i * 8, &jump, sizeof(jump)))
			return false;
	return true;
}

/* The data within reach that has the most room. */
static struct padding *find_data(struct padding *all, size_t count, uint64_t code)
{
	struct padding *best = NULL;

	for (size_t i = 0; i < count; i++)
		if (all[i].stays && all[i].data + REACH - code < 2 * REACH &&
		    all[i].data_bytes > (best ? best->data_bytes : 0))
			best = &all[i];
	return best;
}

static void take_data(struct padding *all, size_t count, uint64_t words)
{
	for (size_t i = 0; i < count; i++)
		if (words - all[i].data < all[i].data_bytes)
			all[i].data_bytes = 0;
}

#define LEAST 4u /* jumps in one place: there is room for few places in the list */

static void lay_new(const struct tracee *tracee, struct pfw_attach_block *block, size_t used,
		    struct padding *all, size_t count)
{
	for (size_t i = 0; i < count && used < sizeof(block->thunks) / sizeof(block->thunks[0]);
	     i++) {
		struct padding *data = all[i].stays && all[i].code_bytes
					       ? find_data(all, count, all[i].code)
					       : NULL;
		struct pfw_attach_thunks *thunks = &block->thunks[used];

		if (!data)
			continue;
		*thunks = (struct pfw_attach_thunks){ all[i].code, data->data,
						      all[i].code_bytes / 8 };
		if (thunks->count > data->data_bytes / 8)
			thunks->count = data->data_bytes / 8;
		if (thunks->count >= LEAST && lay(tracee, thunks))
			used++;
		data->data_bytes = 0;
	}
	if (used < sizeof(block->thunks) / sizeof(block->thunks[0]))
		block->thunks[used].count = 0;
}

void padding_lay_thunks(const struct tracee *tracee, struct pfw_attach_block *block,
			uint64_t without)
{
	struct padding *all = calloc(PADDINGS_MAX, sizeof(*all));
	size_t count = all ? padding_list(tracee, all) : 0, used = 0, room;

	room = sizeof(block->thunks) / sizeof(block->thunks[0]);
	/* Also what an earlier recorder had to make a mapping for. */
	for (size_t i = 0; i < tracee->maps && used < room; i++)
		if (tracee->map[i].executable && !tracee->map[i].path[0]) {
			block->thunks[used] =
				find_thunks(tracee, tracee->map[i].start,
					    tracee->map[i].end - tracee->map[i].start);
			used += block->thunks[used].count &&
				block->thunks[used].words == tracee->map[i].start + PAGE_BYTES;
		}
	for (size_t i = 0; i < count && used < room; i++) {
		if (all[i].code == without) {
			all[i].code_bytes = 0;
			continue;
		}
		block->thunks[used] = find_thunks(tracee, all[i].code, all[i].code_bytes);
		if (!block->thunks[used].count)
			continue;
		take_data(all, count, block->thunks[used++].words);
		all[i].code_bytes = 0;
	}
	lay_new(tracee, block, used, all, count);
	free(all);
}

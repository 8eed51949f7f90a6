/* tools/attach/arena.c - finds the word by which libc knows a thread's arena: see arena.h.
 *
 * The word is a thread-local variable of libc's that no symbol names.  This process has one, too: a
 * thread that has allocated for the first time finds the address of its arena there, which the memory
 * it got leads to as well.  In another process with the same libc the distance to the thread's pointer
 * stands at the same place of libc's table.
 */
#include "attach/arena.h"

#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "attach/tracee.h"

#if defined(__x86_64__)

#define HEAP_ALIGN (UINT64_C(1) << 20) /* heaps of arenas begin at multiples of at least this */
#define NEAR (128u * 1024u)	       /* an arena lies at the beginning of its first heap */
#define MORE_THAN_CACHED 4000u
#define ALIKE_BYTES 1024u /* of libc: headers, and the build's number */

/* libc in this process; addresses from its base on. */
struct libc {
	uint64_t base, words, words_bytes; /* words: relocations */
	uint64_t slot;			   /* of the distance of the word; 0 = not found */
	uint64_t arena;			   /* the first one */
};

static int find_libc(struct dl_phdr_info *info, size_t size, void *user)
{
	uint64_t inside = (uintptr_t)gnu_get_libc_version, dynamic = 0;
	struct libc *libc = user;
	bool holds = false;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		holds |= part->p_type == PT_LOAD &&
			 inside - info->dlpi_addr - part->p_vaddr < part->p_memsz;
		if (part->p_type == PT_DYNAMIC)
			dynamic = info->dlpi_addr + part->p_vaddr;
	}
	if (!holds || !dynamic)
		return 0;
	libc->base = info->dlpi_addr;
	for (const ElfW(Dyn) *entry = (void *)(uintptr_t)dynamic; entry->d_tag != DT_NULL;
	     entry++) {
		if (entry->d_tag == DT_RELA)
			libc->words = entry->d_un.d_ptr;
		if (entry->d_tag == DT_RELASZ)
			libc->words_bytes = entry->d_un.d_val;
	}
	return 1;
}

static uint64_t word_at(uint64_t address)
{
	return *(const uint64_t *)(uintptr_t)address;
}

/* Whether memory of this thread comes from an arena that is not the first one.  What libc keeps before
 * each block is no memory of ours to a sanitizer. */
__attribute__((no_sanitize("address"))) static bool has_own_arena(const char *memory)
{
	return ((const size_t *)(const void *)memory)[-1] & 4; /* NON_MAIN_ARENA */
}

/* An arena is the first thing in its heap, which begins with the arena's address. */
static bool is_arena(uint64_t value, uint64_t memory)
{
	return value < memory && memory - value < NEAR &&
	       word_at(value & ~(HEAP_ALIGN - 1)) == value;
}

static void *find_slot(void *user)
{
	struct libc *libc = user;
	const Elf64_Rela *at = (void *)(uintptr_t)libc->words;
	char *volatile memory = malloc(MORE_THAN_CACHED);

	for (size_t i = 0; memory && has_own_arena(memory) && i < libc->words_bytes / sizeof(*at);
	     i++)
		if (ELF64_R_TYPE(at[i].r_info) == R_X86_64_TPOFF64 &&
		    is_arena(word_at(pthread_self() + word_at(libc->base + at[i].r_offset)),
			     (uintptr_t)memory))
			libc->slot = at[i].r_offset;
	free(memory);
	return NULL;
}

/* This thread, the first, has the first arena. */
static void learn(struct libc *libc)
{
	char *volatile memory = malloc(MORE_THAN_CACHED);
	pthread_t thread;

	dl_iterate_phdr(find_libc, libc);
	if (memory && !has_own_arena(memory) && libc->words &&
	    !pthread_create(&thread, NULL, find_slot, libc))
		pthread_join(thread, NULL);
	free(memory);
	if (libc->slot)
		libc->arena =
			word_at(pthread_self() + word_at(libc->base + libc->slot)) - libc->base;
}

/* The same build: headers and number are equal. */
static bool is_alike(const struct tracee *tracee, const struct libc *libc, uint64_t base)
{
	static const char number[] = "\3\0\0\0GNU";
	char there[ALIKE_BYTES];
	const void *here = (const void *)(uintptr_t)libc->base;

	return tracee_read(tracee, base, there, sizeof(there)) &&
	       !memcmp(here, there, sizeof(there)) &&
	       memmem(there, sizeof(there), number, sizeof(number));
}

struct arena arena_find(const struct tracee *tracee)
{
	uint64_t version = tracee_function(tracee, "gnu_get_libc_version"), base;
	struct arena found = { 0, 0 };
	const struct tracee_map *map;
	struct libc libc = { 0 };

	learn(&libc);
	base = version - ((uintptr_t)gnu_get_libc_version - libc.base);
	map = tracee_map_of(tracee, base + libc.arena);
	if (!libc.slot || !version || !map || !map->writable || !is_alike(tracee, &libc, base) ||
	    !tracee_read(tracee, base + libc.slot, &found.distance, sizeof(found.distance)))
		return found;
	found.arena = base + libc.arena;
	return found;
}

#else

struct arena arena_find(const struct tracee *tracee)
{
	(void)tracee;
	return (struct arena){ 0, 0 };
}

#endif

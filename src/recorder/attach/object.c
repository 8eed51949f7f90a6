/* recorder/attach/object.c - function addresses that a loaded ELF object holds: see object.h. */
#include "recorder/attach/object.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#include "common/base/os.h"

/*
 * Relocations that put a function's address into a word: for calls through the procedure linkage
 * table; for loads from the global offset table (-fno-plt, and &read); for data (a table of
 * functions, as sqlite's system calls).
 */
enum reference { CALLED, LOADED, STORED, REFERENCES };

static const uint32_t reference[REFERENCES] = {
#if defined(__x86_64__)
	[CALLED] = R_X86_64_JUMP_SLOT,
	[LOADED] = R_X86_64_GLOB_DAT,
	[STORED] = R_X86_64_64,
#elif defined(__aarch64__)
	[CALLED] = R_AARCH64_JUMP_SLOT,
	[LOADED] = R_AARCH64_GLOB_DAT,
	[STORED] = R_AARCH64_ABS64,
#else
#error "pfw: no relocation types for this processor yet: add them to src/recorder/attach/object.c"
#endif
};

/* The dynamic linker replaces these offsets by addresses, except in objects whose dynamic section
 * is read-only. */
static const void *address(const struct pfw_object *object, ElfW(Addr) value)
{
	return (const void *)(value < object->base ? value + object->base : value);
}

static void read_dynamic(struct pfw_object *object, const ElfW(Dyn) * dynamic)
{
	size_t bytes[2] = { 0, 0 }, relative = 0;
	const void *at;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		at = address(object, dynamic->d_un.d_ptr);
		switch (dynamic->d_tag) {
		case DT_SYMTAB:
			object->symbols = at;
			break;
		case DT_STRTAB:
			object->strings = at;
			break;
		case DT_GNU_HASH:
			object->hash = at;
			break;
		case DT_VERSYM:
			object->index = at;
			break;
		case DT_VERNEED:
			object->needs = at;
			break;
		case DT_VERDEF:
			object->defines = at;
			break;
		case DT_RELA:
			object->relocations[0] = at;
			break;
		case DT_RELASZ:
			bytes[0] = dynamic->d_un.d_val;
			break;
		case DT_RELACOUNT: /* relative relocations come first and have no symbol */
			relative = dynamic->d_un.d_val;
			break;
		case DT_JMPREL:
			object->relocations[1] = at;
			break;
		case DT_PLTRELSZ:
			bytes[1] = dynamic->d_un.d_val;
			break;
		}
	}
	for (int i = 0; i < 2; i++)
		if (object->relocations[i])
			object->relocation_count[i] = bytes[i] / sizeof(ElfW(Rela));
	if (relative && relative <= object->relocation_count[0]) {
		object->relocations[0] += relative;
		object->relocation_count[0] -= relative;
	}
}

bool pfw_object_read(struct pfw_object *object, const struct dl_phdr_info *info)
{
	uintptr_t page = getauxval(AT_PAGESZ);
	const ElfW(Dyn) *dynamic = NULL;

	memset(object, 0, sizeof(*object));
	object->name = info->dlpi_name ? info->dlpi_name : "";
	object->base = info->dlpi_addr;
	object->headers = info->dlpi_phdr;
	object->header_count = info->dlpi_phnum;
	for (unsigned i = 0; i < object->header_count; i++) {
		const ElfW(Phdr) *header = &object->headers[i];
		uintptr_t start = object->base + header->p_vaddr;

		if (header->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)start;
		/* whole pages only, as the linker protects them */
		if (header->p_type == PT_GNU_RELRO) {
			object->relro = start & ~(page - 1);
			object->relro_end = (start + header->p_memsz) & ~(page - 1);
		}
	}
	if (!dynamic)
		return false;
	read_dynamic(object, dynamic);
	return object->symbols && object->strings;
}

bool pfw_object_slot(const struct pfw_object *object, const ElfW(Rela) * relocation,
		     struct pfw_object_slot *slot)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
	uintptr_t at = object->base + relocation->r_offset;

	slot->symbol = (uint32_t)ELF64_R_SYM(relocation->r_info);
	slot->word = (void *_Atomic *)at;
	slot->called = type == reference[CALLED];
	return slot->symbol && !relocation->r_addend && at % sizeof(void *) == 0 &&
	       (slot->called || type == reference[LOADED] || type == reference[STORED]);
}

uint32_t pfw_object_flags(const struct pfw_object *object, uintptr_t address)
{
	for (unsigned i = 0; i < object->header_count; i++) {
		const ElfW(Phdr) *header = &object->headers[i];

		if (header->p_type == PT_LOAD &&
		    address - object->base - header->p_vaddr < header->p_memsz)
			return header->p_flags;
	}
	return 0;
}

/* A GNU hash table has no symbol count: it says how many symbols it leaves out and where each chain
 * begins.  The last chain's end is the last symbol. */
uint32_t pfw_object_symbols(const struct pfw_object *object)
{
	const uint32_t *hash = object->hash, *bucket, *chain;
	uint32_t buckets, first, last = 0;

	if (!hash)
		return 0;
	buckets = hash[0];
	first = hash[1];
	bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = bucket + buckets;
	for (uint32_t i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static const void *after(const void *at, ElfW(Word) bytes)
{
	return bytes ? (const char *)at + bytes : NULL;
}

uint32_t pfw_object_version(const struct pfw_object *object, uint32_t symbol)
{
	unsigned wanted = object->index ? object->index[symbol] & 0x7fffu : 0;
	const ElfW(Verneed) * need;
	const ElfW(Verdef) * define;
	const ElfW(Vernaux) * one;

	if (wanted < 2) /* local or unversioned */
		return 0;
	for (define = object->defines; define; define = after(define, define->vd_next))
		if ((define->vd_ndx & 0x7fff) == wanted)
			return define->vd_hash;
	for (need = object->needs; need; need = after(need, need->vn_next))
		for (one = after(need, need->vn_aux); one; one = after(one, one->vna_next))
			if ((one->vna_other & 0x7fff) == wanted)
				return one->vna_hash;
	return 0;
}

/* Write a slot even if the dynamic linker has made it read-only. */
static void write_slot(const struct pfw_object *object, void *_Atomic *word, void *to)
{
	uintptr_t page = (uintptr_t)word & ~(pfw_os_page_bytes() - 1);
	bool closed = (uintptr_t)word >= object->relro && (uintptr_t)word < object->relro_end;

	if (closed && pfw_os_mprotect((void *)page, pfw_os_page_bytes(), PROT_READ | PROT_WRITE))
		return;
	atomic_store_explicit(word, to, memory_order_release);
	if (closed)
		pfw_os_mprotect((void *)page, pfw_os_page_bytes(), PROT_READ);
}

/*
 * Redirect a slot that leads to the function, or an unresolved one that leads back into its object.
 */
static void lead(struct pfw_slots *slots, const struct pfw_object *object,
		 const struct pfw_object_slot *slot)
{
	const char *name = object->strings + object->symbols[slot->symbol].st_name;
	void *now, *real;

	/* all of NVIDIA's names begin so */
	if (!slots->only_in && (name[0] != 'c' || name[1] != 'u'))
		return;
	for (unsigned i = 0; i < slots->count; i++) {
		if (strcmp(name, slots->calls[i].name))
			continue;
		slots->found |= 1u << i;
		if (slots->only_find)
			continue;
		now = atomic_load_explicit(slot->word, memory_order_relaxed);
		real = slots->real_of(i);
		if (real &&
		    (now == real || (slot->called && pfw_object_flags(object, (uintptr_t)now))))
			write_slot(object, slot->word, slots->calls[i].wrapper);
	}
}

static bool holds_one(const struct pfw_slots *slots, const struct pfw_object *object)
{
	for (unsigned i = 0; i < slots->count; i++)
		if (pfw_object_flags(object, (uintptr_t)slots->real_of(i)))
			return true;
	return false;
}

static bool is_wanted(const struct pfw_slots *slots, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return !slots->only_in ||
	       (slash && !strncmp(slash + 1, slots->only_in, strlen(slots->only_in)));
}

static int visit(struct dl_phdr_info *info, size_t size, void *user)
{
	struct pfw_slots *slots = user;
	struct pfw_object object;
	struct pfw_object_slot slot;

	(void)size;
	if (!is_wanted(slots, info->dlpi_name) || !pfw_object_read(&object, info) ||
	    holds_one(slots, &object))
		return 0;
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < object.relocation_count[i]; k++)
			if (pfw_object_slot(&object, &object.relocations[i][k], &slot))
				lead(slots, &object, &slot);
	return 0;
}

static int count_adds(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	*(unsigned long long *)user = info->dlpi_adds;
	return 1;
}

void pfw_slots_look(struct pfw_slots *slots)
{
	unsigned long long adds = 0;

	dl_iterate_phdr(count_adds, &adds);
	if (adds == slots->adds)
		return;
	slots->adds = adds;
	if (slots->loaded)
		slots->loaded();
	dl_iterate_phdr(visit, slots);
}

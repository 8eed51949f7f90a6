/* object.h - a loaded ELF object: which of its words hold addresses of which functions.
 *
 * Read from the program headers that dl_iterate_phdr() gives, in the object's own memory; nothing is
 * opened, allocated or asked of the dynamic linker.  To be used inside dl_iterate_phdr(), which
 * keeps the object from being unmapped.
 */
#ifndef PFW_OBJECT_H
#define PFW_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_object {
	const char *name; /* "" is the program itself */
	uintptr_t base;
	const ElfW(Phdr) * headers;
	unsigned header_count;
	uintptr_t relro, relro_end; /* made read-only after relocation; equal = nothing */
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hash;	  /* GNU style, NULL = none */
	const ElfW(Half) * index; /* of each symbol's version, NULL = none */
	const ElfW(Verneed) * needs;
	const ElfW(Verdef) * defines;
	/* Relocations that may be of functions: data, and the procedure linkage table's. */
	const ElfW(Rela) * relocations[2];
	size_t relocation_count[2];
};

/* A word of an object that the dynamic linker fills with a function's address. */
struct pfw_object_slot {
	void *_Atomic *word;
	uint32_t symbol;
	bool called; /* by the procedure linkage table: may be resolved at its first call only */
};

/* False: nothing in it is filled by the dynamic linker.  Thread: any.  Signal: safe. */
bool pfw_object_read(struct pfw_object *object, const struct dl_phdr_info *info);

/* What a relocation is about; false where it is none of a whole, aligned function address. */
bool pfw_object_slot(const struct pfw_object *object, const ElfW(Rela) * relocation,
		     struct pfw_object_slot *slot);

/* The segment that holds an address, as PF_* flags; 0 where it is not in the object. */
uint32_t pfw_object_flags(const struct pfw_object *object, uintptr_t address);

/* How many symbols an object has, by its hash table; 0 where there is none. */
uint32_t pfw_object_symbols(const struct pfw_object *object);

/* The version that a symbol asks for, or is, as ELF hash; 0 = none. */
uint32_t pfw_object_version(const struct pfw_object *object, uint32_t symbol);

#endif

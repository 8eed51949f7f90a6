/* recorder/attach/object.h - the function addresses that a loaded ELF object holds.
 *
 * Everything is read from the program headers that dl_iterate_phdr() gives and from the object's
 * own memory: no file is opened, nothing is allocated, the dynamic linker is not called.  Use it
 * inside dl_iterate_phdr(), which keeps the object mapped.
 */
#pragma once

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
	const uint32_t *hash;	  /* GNU hash table, NULL = none */
	const ElfW(Half) * index; /* each symbol's version index, NULL = none */
	const ElfW(Verneed) * needs;
	const ElfW(Verdef) * defines;
	/* Relocations that may refer to functions: of data, and of the procedure linkage table. */
	const ElfW(Rela) * relocations[2];
	size_t relocation_count[2];
};

/* A word of an object that the dynamic linker fills with a function's address. */
struct pfw_object_slot {
	void *_Atomic *word;
	uint32_t symbol;
	/* a word of the procedure linkage table: resolved at the first call, possibly */
	bool called;
};

/* False: the dynamic linker fills nothing in this object.  Thread: any.  Signal: safe. */
bool pfw_object_read(struct pfw_object *object, const struct dl_phdr_info *info);

/* The slot of a relocation; false unless it is a whole, aligned function address. */
bool pfw_object_slot(const struct pfw_object *object, const ElfW(Rela) * relocation,
		     struct pfw_object_slot *slot);

/* PF_* flags of the segment that holds an address; 0 if the address is outside the object. */
uint32_t pfw_object_flags(const struct pfw_object *object, uintptr_t address);

/* The number of symbols according to the hash table; 0 without a table. */
uint32_t pfw_object_symbols(const struct pfw_object *object);

/* The ELF hash of the version that a symbol requires or has; 0 = none. */
uint32_t pfw_object_version(const struct pfw_object *object, uint32_t symbol);

/* ---- slots: a few calls of other libraries are redirected ---- */

struct pfw_slots_call {
	const char *name;
	void *wrapper;
};

struct pfw_slots {
	const struct pfw_slots_call *calls;
	unsigned count;
	/* The address of a call's function now, NULL = not loaded.  Thread: the one that looks,
	 * inside dl_iterate_phdr(). */
	void *(*real_of)(unsigned which);
	void (*loaded)(void);	 /* called first after an object was loaded; may be NULL */
	unsigned long long adds; /* dlpi_adds at the last look */
	const char *only_in;	 /* what the names of the objects' files begin with; NULL: all */
	bool only_find;		 /* redirect nothing */
	unsigned found;		 /* bit n: an object calls calls[n] */
};

/*
 * In the objects loaded since the last look, redirect slots that lead to the functions, or are
 * unresolved, to the wrappers.  Objects that define the functions keep their own calls.  Thread:
 * any, one at a time.  Signal: unsafe (dl_iterate_phdr).
 */
void pfw_slots_look(struct pfw_slots *slots);

/* recorder/attach/slots.h - redirects a few calls of other libraries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

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
	bool only_find;		 /* redirect nothing */
	unsigned found;		 /* bit n: an object calls calls[n] */
};

/*
 * In the objects loaded since the last look, redirect slots that lead to the functions, or are
 * unresolved, to the wrappers.  Objects that define the functions keep their own calls.  Thread:
 * any, one at a time.  Signal: unsafe (dl_iterate_phdr).
 */
void pfw_slots_look(struct pfw_slots *slots);

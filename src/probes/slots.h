/* slots.h - leading a few calls of loaded objects elsewhere, as attach.c does it with libc's. */
#ifndef PFW_SLOTS_H
#define PFW_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

struct pfw_slots_call {
	const char *name;
	void *wrapper;
};

struct pfw_slots {
	const struct pfw_slots_call *calls;
	unsigned count;
	/* Where a call's function is now, NULL = nowhere.  Thread: who looks, inside dl_iterate_phdr(). */
	void *(*real_of)(unsigned which);
	void (*loaded)(void);	 /* something has been, before anything else is asked; or NULL */
	unsigned long long adds; /* of objects, as they were at the last look */
	bool only_find;		 /* lead nothing */
	unsigned found;		 /* bit n: an object calls calls[n] */
};

/* Lead what leads to the functions, or is not resolved yet, to the wrappers, in all that has been loaded
 * since the last look; but the objects that the functions are in call themselves as they like.
 * Thread: any, one at a time.  Signal: unsafe (dl_iterate_phdr). */
void pfw_slots_look(struct pfw_slots *slots);

#endif

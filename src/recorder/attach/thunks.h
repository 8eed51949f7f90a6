/* recorder/attach/thunks.h - where addresses of a running program lead, so that we can be unloaded.
 *
 * A program copies addresses of functions from its slots (curl keeps the one of fread()).  So in a program
 * that `pfw attach` was called for, a slot that can be copied leads to a thunk, one jump through a word.
 * The thunks stay when the recorder goes; the words lead to libc then.  Thunks lie in what is left
 * over behind the code of libraries (tools/attach/padding.c), their words behind data.  A slot of a
 * procedure linkage table is only jumped through, and needs none.
 */
#pragma once

#include <stdbool.h>

struct pfw_attach_thunks;

/* Use these places, up to the first without room; earlier attachments may have used some.
 * Thread: init. */
void pfw_thunks_begin(const struct pfw_attach_thunks *places);

/* Whether every slot that needs a thunk has one. */
bool pfw_thunks_suffice(void);

/* The number of thunks, and whether some lie in a mapping of ours because the libraries had no room. */
unsigned pfw_thunks_used(bool *mapped);

/* Lead all thunks to the wrappers that are needed, or to the real calls. */
void pfw_thunks_lead(bool to_wrappers);

/* The address for a slot of this call that the program may copy: the call's thunk, which then leads to
 * the wrapper, or the wrapper. */
void *pfw_thunks_of(unsigned row);

/* Whether this is the call's thunk. */
bool pfw_thunks_is(unsigned row, const void *address);

/* recorder/attach/thunks.h - where the calls of a running program are led, so that we can be unloaded.
 *
 * A program copies addresses of functions from its slots (curl keeps the one of fread()).  So the slots
 * of a program that `pfw attach` was called for lead to thunks, each one jump through a word.  The
 * thunks stay when the recorder goes; the words lead to libc then.
 */
#pragma once

#include <stdbool.h>

/* Use these thunks of an earlier attachment, or make some (earlier is NULL, or of another version).
 * False: there are none; slots lead to the wrappers.  Thread: init. */
bool pfw_thunks_begin(void *earlier);

/* Those in use, for pfw_thunks_begin(); NULL = none. */
void *pfw_thunks_place(void);

/* Lead all thunks to the wrappers that are needed, or to the real calls. */
void pfw_thunks_lead(bool to_wrappers);

/* What a slot of this call is to hold: its thunk, or its wrapper. */
void *pfw_thunks_of(unsigned row);

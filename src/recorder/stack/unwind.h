/* recorder/stack/unwind.h - from frame to frame, within memory that is certainly there. */
#pragma once

#include "recorder/stack/modules.h"
#include "recorder/stack/stack.h"

#define PFW_UNWIND_MODULES 2

struct pfw_unwind {
	uint64_t pc, sp, fp;
	uint64_t low, high; /* readable */
	bool exact;	    /* pc is where a signal came, not a return address */
	bool signal;	    /* a signal handler is among the frames so far */
	bool by_fp;	    /* the stack pointer is not known any more */
	struct pfw_stack_thread *thread;
	/* Modules of the frames so far. */
	struct pfw_module module[PFW_UNWIND_MODULES];
	unsigned modules, newest;
};

enum pfw_unwind_end { PFW_UNWIND_ON, PFW_UNWIND_DONE, PFW_UNWIND_CUT };

/* Thread: init. */
void pfw_unwind_init(void);

/* Begin at the registers of a frame that has not returned.  Thread: app.  Signal: safe, as all. */
void pfw_unwind_begin(struct pfw_unwind *walk, struct pfw_stack_thread *thread);

/* The module of walk->pc, entered; NULL: none is known there. */
const struct pfw_module *pfw_unwind_module(struct pfw_unwind *walk);

/* Go to the caller.  DONE: there is none.  CUT: it cannot be told. */
enum pfw_unwind_end pfw_unwind_up(struct pfw_unwind *walk, const struct pfw_module *module);

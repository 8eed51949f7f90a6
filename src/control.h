/* control.h - steering a process from outside, through the control page of its spool (`pfw ctl`).
 *
 * Whoever may write the spool may ask: it is its owner's alone.  One request at a time; the writer's
 * thread, which sleeps on the page's bell, carries it out and answers.  A process that is recording
 * and has been idle for a while has no such thread: it looks at the request with its next event.
 */
#ifndef PFW_CONTROL_H
#define PFW_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

enum pfw_wish {
	PFW_WISH_NONE,
	PFW_WISH_START, /* record from now on */
	PFW_WISH_STOP,	/* do not, until START */
	PFW_WISH_STEP,	/* as pfw_step(), without the hook */
	PFW_WISH_FLUSH, /* put what has been recorded into the trace */
	PFW_WISHES
};

/* Each 32-bit word that somebody waits on is a futex shared between processes. */
struct pfw_control {
	_Atomic uint32_t bell;	   /* what the writer's thread sleeps on */
	_Atomic uint32_t asked;	   /* number << 3 | enum pfw_wish of the newest request */
	_Atomic uint32_t answered; /* the value of `asked` that was carried out last */
	_Atomic int32_t result;	   /* of it: 0 or -errno */
	_Atomic uint32_t paused; /* 1: nothing is recorded for now; children's processes follow it */
	_Atomic uint32_t action;   /* enum pfw_action of the open step */
	_Atomic uint32_t stepping; /* steps are being counted */
	uint32_t unused;
	_Atomic uint64_t step;	 /* the open one */
	_Atomic uint64_t cycles; /* finished ones */
};

/* A word that is waited on, and the value that it has as long as nothing has happened. */
struct pfw_watch {
	const uint32_t *word;
	uint32_t seen;
};

/* Wake the writer's thread of the process.  Thread: any.  Signal: safe. */
void pfw_control_ring(struct pfw_control *control);

/* The wish that has not been answered yet, or NONE.  Thread: drain. */
enum pfw_wish pfw_control_wish(const struct pfw_control *control);

/* Answer it.  Thread: drain. */
void pfw_control_answer(struct pfw_control *control, int result);

/* Nothing is recorded from now on, or again: those who follow are told.  Thread: any. */
void pfw_control_pause(struct pfw_control *control, int paused);

/*
 * Ask a process, and wait for at most timeout_ns until it has answered: its result, 0 or -errno;
 * -ETIMEDOUT where it has not: the request stays, until it is carried out or somebody asks for
 * something else.  Thread: any, of another process.
 */
int pfw_control_ask(struct pfw_control *control, enum pfw_wish wish, uint64_t timeout_ns);

#endif

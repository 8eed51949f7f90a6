/* common/format/control.h - steering a process through the control page of its spool (`pfw ctl`).
 *
 * Only the owner of the spool can write a request.  There is one request at a time.  The writer
 * thread sleeps on the bell, executes the request and answers.  A recording process that has been
 * idle for a while has no writer thread: it sees the request with its next event.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum pfw_request {
	PFW_WISH_NONE,
	PFW_WISH_START, /* record from now on */
	PFW_WISH_STOP,	/* record nothing until START */
	PFW_WISH_STEP,	/* as pfw_step(), without the hook */
	PFW_WISH_FLUSH, /* write all recorded events to the trace */
	PFW_WISH_DUMP,	/* of a flight recorder */
	PFW_WISHES
};

/* bell, answered and paused are futexes shared between processes. */
struct pfw_control {
	_Atomic uint32_t bell;	   /* the writer thread sleeps on it */
	_Atomic uint32_t asked;	   /* number << 3 | enum pfw_request of the newest request */
	_Atomic uint32_t answered; /* the value of `asked` executed last */
	_Atomic int32_t result;	   /* of that request: 0 or -errno */
	_Atomic uint32_t paused;   /* 1: recording is paused; child processes follow it */
	_Atomic uint32_t action;   /* enum pfw_action of the open step */
	_Atomic uint32_t stepping; /* steps are being counted */
	uint32_t unused;
	_Atomic uint64_t step;	 /* the open step */
	_Atomic uint64_t cycles; /* finished cycles */
};

/* A futex word to wait on, and its value while nothing has happened. */
struct pfw_watch {
	const uint32_t *word;
	uint32_t seen;
};

/* How long a dump may take: the writer carries it out, and `pfw ctl` waits, for that long. */
#define PFW_CONTROL_DUMP_NS 60000000000ull

/* Wake the writer thread of the process.  Thread: any.  Signal: safe. */
void pfw_control_wake(struct pfw_control *control);

/* The request without an answer, or NONE.  Thread: drain. */
enum pfw_request pfw_control_wish(const struct pfw_control *control);

/* Answer that request.  Thread: drain. */
void pfw_control_answer(struct pfw_control *control, int result);

/* Pause or resume recording, and wake the child processes that follow.  Thread: any. */
void pfw_control_pause(struct pfw_control *control, int paused);

/* Send a request to a process and wait at most timeout_ns for the answer.  Return its result, 0 or
 * -errno; or -ETIMEDOUT: then the request stays until the process executes it or another request
 * replaces it.  Thread: any, of another process. */
int pfw_control_ask(struct pfw_control *control, enum pfw_request wish, uint64_t timeout_ns);

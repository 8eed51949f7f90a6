/* attach/thread.h - one thread of another process, stopped by ptrace(2). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tracee;

/* The general registers, by the kernel's names. */
struct thread {
	struct tracee *tracee;
	pid_t tid;
	bool stopped;	 /* at a stop that ptrace() reported */
	bool seen;	 /* has been at one */
	int signal;	 /* the one that it was about to take; 0 = none */
	uint64_t ran_ns; /* MONOTONIC, when it was last seen to run or to wait */
	uint64_t cpu_ns; /* for how long it had run, or waited for a processor, then or later */
	uint64_t registers[64];
};

/* Bytes of the area that XSAVE fills on this machine; 0 = it has no XSAVE. */
uint64_t thread_save_bytes(void);

/* Around all that follows: a second process ends this one if it leaves a thread stopped for longer
 * than half a second.  0, or -1 and tracee->why. */
int thread_watch_begin(struct tracee *tracee);
void thread_watch_end(struct tracee *tracee);

/* Stop the thread.  0, or -1 and errno (EAGAIN: rather not in the call in which it is).  The tracee counts its stops, and how long they are. */
int thread_stop(struct thread *thread, struct tracee *tracee, pid_t tid);

/* Wait until it stands still, wherever that is.  False: it did not in time, or is gone. */
bool thread_stand(struct thread *thread);

/* Wait until it stands still, and, if it `steps`, let it run up to a safe system call, for some
 * milliseconds at most.  False: it is at none. */
bool thread_to_safe_point(struct thread *thread, bool steps);

/* Whether the stopped thread is in no system call, has no signal to take, and is in no sequence that the
 * kernel begins again (rseq). */
bool thread_computes(const struct thread *thread);

/* Whether the stopped thread's seccomp filters allow what it would have to do. */
bool thread_may(const struct thread *thread);

/* Where the program goes on, and with what in its result register, if the registers are changed
 * now: it makes an interrupted call again. */
void thread_resumes_at(const struct thread *thread, uint64_t *pc, uint64_t *result);

/* Its r11, in whose place thread_lead() puts something else. */
uint64_t thread_r11(const struct thread *thread);

/* Let the stopped thread go on at `pc`, with r11 = values and its other registers as they are. */
bool thread_lead(struct thread *thread, uint64_t pc, uint64_t values);

/* Let go of the thread, wherever it is.  One that waits for a disk cannot stop before that has ended:
 * it is late.  Late threads are let go as soon as they stop, in any call here, or when the calling
 * thread ends. */
void thread_release(struct thread *thread);

/* A millisecond.  True: a late thread has stopped, which is *late as after thread_stop().  With NULL
 * they are let go. */
bool thread_nap(struct tracee *tracee, struct thread *late);

/* ---- safe.c: where a thread may be led away from what it does ---- */

/* Whether the thread waits in a safe call.  It is not stopped for this. */
bool thread_waits(const struct tracee *tracee, pid_t tid);

/* Whether the stopped thread, whose registers are read, is at a safe point. */
bool thread_is_safe(const struct thread *thread);

/* Whether a stopped thread neither is in this code, nor will return into it or call it: no register
 * and no word of its stacks leads there.  False in doubt: an ended call leaves words behind, too. */
bool thread_is_outside(const struct thread *thread, uint64_t start, uint64_t end);

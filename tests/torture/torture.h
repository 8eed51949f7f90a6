/* torture.h - what the hard cases share: the witness, and the table of modes.
 *
 * A tick is one pread() whose offset is its number, taken from a counter in a file that is mapped
 * shared; when the call has returned, the number's byte in that file is set.  So whatever happens
 * to the process, the file says afterwards which calls returned: each of them has to be in the
 * trace exactly once, by its offset.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#define TICKS_MAX (1u << 24)
#define TICK_BYTES 8

struct witness {
	_Atomic uint64_t next; /* number of the next tick */
	_Atomic uint64_t bad;  /* ticks that did not read what they should */
	char unused[4080];
	_Atomic unsigned char returned[TICKS_MAX];
};

extern struct witness *witness;
extern int data_fd;	       /* what ticks read */
extern char *self, *directory; /* this program; where everything of the case lies */

/* One witnessed call; any thread, any handler.  Keeps errno. */
void tick(void);
void ticks(long count);

/* The same through another pread() than the program's own: a library's. */
void tick_through(ssize_t (*read_at)(int, void *, size_t, off_t));

/* A call that no trace need have: a vfork child's, one in a cleaned environment. */
void unwitnessed(void);

/* Wait for every child; the number of those that did not exit with 0. */
int wait_all(void);

/* Threads that tick until told to stop; or `most` times each (0: no limit), then they wait. */
void start_tickers(int threads, long most);
void stop_tickers(void);

/* A number below `bound`, of this case's seed. */
unsigned random_below(unsigned bound);

/* Leave with a line where something that must work does not. */
void must(int works, const char *what);

struct mode {
	const char *name;
	int (*run)(long count, char **rest); /* its result is the exit status */
};
extern const struct mode fork_modes[], end_modes[], thread_modes[], signal_modes[], limit_modes[],
	file_modes[];

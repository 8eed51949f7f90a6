/* attach/arena.h - leads malloc() of our thread in another process to memory that is there. */
#pragma once

#include <stdint.h>

struct tracee;

/*
 * The word of a thread lies `distance` behind its thread pointer; `arena` is the value that it is to have
 * while the thread does what we want.  Without this libc makes an arena for a thread, 64 MiB of
 * addresses, which it keeps for the next thread of the program.  An arena of 0: the process has
 * another libc than this command.
 */
struct arena {
	uint64_t distance, arena;
};

struct arena arena_find(const struct tracee *tracee);

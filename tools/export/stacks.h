/* tools/export/stacks.h - spans added up by their stacks: the lines of folded stacks and the frames of a
 * flame graph. */
#pragma once

#include "export/export.h"
#include "store/kit/arena.h"
#include "store/kit/pair_ids.h"

#define EXPORT_STACK_DEPTH 4608u /* no stack has more frames */

/* What a frame's time was spent on. */
enum export_stack_kind {
	EXPORT_STACK_PROGRAM,
	EXPORT_STACK_IO,
	EXPORT_STACK_DEVICE,
};

/* A frame with its callers.  Its figures are its own: those of the frames on top of it are not in them. */
struct export_stack {
	uint32_t parent; /* smaller than its own number; 0: none */
	uint32_t name;
	uint8_t kind; /* enum export_stack_kind */
	uint64_t host_ns, device_ns, count;
};

/* All zero but for `job`: empty. */
struct export_stacks {
	const struct export_job *job;
	struct export_stack *stack; /* numbers from 1 to `count` */
	const char **name;	    /* in UTF-8, without control bytes and ";" */
	size_t count;
	/* for stacks.c */
	size_t stack_room, names, name_room, threads, thread_room, launch_room;
	struct export_args args;
	struct pfw_arena texts;
	struct pfw_pair_ids name_numbers, stack_numbers, thread_numbers, launch_numbers;
	struct export_stack_thread *thread;
	uint32_t *launch; /* stack of the launching call, by correlation */
};

/* The functions of a format that has such a state (struct export_format). */
int export_stacks_line(void *stacks, size_t file, const struct pfw_entry *entry);
void export_stacks_release(void *stacks);

/* After the last line: end the spans that are still open. */
void export_stacks_close(struct export_stacks *stacks);

/* The figure that --weight asks for. */
uint64_t export_stacks_weight(const struct export_stacks *stacks, const struct export_stack *stack);

/* The numbers of a stack's frames, the innermost one first.  Return how many. */
size_t export_stacks_frames(const struct export_stacks *stacks, size_t number,
			    uint32_t frame[EXPORT_STACK_DEPTH]);

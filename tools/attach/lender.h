/* attach/lender.h - memory for what the dynamic linker and libc allocate in our thread.
 *
 * The program's allocator sets things up for each thread (arenas, threads of its own), and keeps them.
 * So the code of stub.c stands before malloc() and its relatives, in the dynamic linker's own pointers
 * and in two of libc's, while the recorder is in the process: our thread gets memory of ours, all others
 * get what they always get.  Nobody else sees these blocks: the dynamic linker frees what it has allocated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stub_values;
struct tracee;

/* Code that stub.h describes, in the process. */
struct lender {
	uint64_t place; /* the code */
	uint64_t word;	/* behind it, where it finds the address of the state */
	uint64_t state; /* struct stub_lender, all zero at first */
};

/* Lead the pointers to the code.  False: they are not found, and nothing is lent. */
bool lender_begin(const struct tracee *tracee, const struct lender *lender);

/*
 * Choose a place for what is lent.  Tables that the dynamic linker makes for the first dlopen() of all stay
 * there, so it lies beside memory of a library's that stays, if it may: both are one mapping then.
 */
void lender_place(const struct tracee *tracee, struct stub_values *values);

/* Put them back, unless something that was lent is in use. */
void lender_end(const struct tracee *tracee, const struct lender *lender);

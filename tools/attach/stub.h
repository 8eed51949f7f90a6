/* attach/stub.h - the machine code that `pfw attach` lays into a process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What the code reads; it lies beside the code, once for each attachment. */
struct stub_values {
	uint64_t pc, rax, r11;	     /* where the stopped thread goes on, and with what */
	uint64_t block, block_bytes; /* a free place for struct pfw_attach_block */
	uint64_t save_bytes;	     /* of XSAVE's area, a multiple of 64 */
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror, dlclose, dladdr;
	uint64_t attr_init, attr_setstack; /* pthread_attr_init() and so on */
	uint64_t lent, lent_bytes;	   /* a place for the lender's memory, rather */
	uint64_t grows;	    /* before it, bytes of a mapping to be lengthened; or 0 */
	uint64_t number;    /* of the attachment, from 1; 0 = never used */
	uint64_t dismissed; /* 1: its command was killed, the thread may go */
};

enum { STUB_MALLOC, STUB_CALLOC, STUB_REALLOC, STUB_FREE, STUB_ALLOCATOR };

#define STUB_OURS 6u

/* What the lender knows: in memory of the process that can be written, and stays (see inject.h). */
struct stub_lender {
	uint64_t real[STUB_ALLOCATOR];
	uint64_t ours[STUB_OURS]; /* our threads: what they allocate is lent; their pointers, as in %fs:16.
				   * One, unless commands were killed; also the program's, while it
				   * starts ours */
	uint64_t starter;	  /* any thread, while it starts the writer: the recorder sets it */
	uint64_t begin, end; /* memory that is lent; 0 = none is mapped */
	uint64_t next;	     /* the rest begins there */
	uint64_t from;	     /* libc's malloc() is lent to code from here on: dlerror.o */
	uint64_t lock;	     /* 1: somebody allocates or unmaps */
};

/* The functions of the code that stand before the real ones, once it lies at `place`. */
struct stub_functions {
	uint64_t of[STUB_ALLOCATOR];
	uint64_t libc_malloc; /* in place of of[STUB_MALLOC] where libc calls */
};
struct stub_functions stub_functions(uint64_t place);

/* The code, which is position-independent and begins with its first instruction; *bytes is a multiple
 * of 16.  Behind it a word leads to struct stub_lender.  It is for x86-64: see attach.c. */
const char *stub_text(size_t *bytes);

/* attach/stub.h - the machine code that `pfw attach` lays into a process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the code reads; it lies beside the code, once for each attachment. */
struct stub_values {
	uint64_t pc, rax, r11;	     /* where the stopped thread goes on, and with what */
	uint64_t arena_word;	     /* struct pfw_attach_block's, of the stopped thread */
	uint64_t block, block_bytes; /* a free place for struct pfw_attach_block */
	uint64_t save_bytes;	     /* of XSAVE's area, a multiple of 64 */
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror, dlclose, dladdr;
	uint64_t attr_init, attr_setstack; /* pthread_attr_init() and so on */
	uint64_t arena;
	uint64_t number; /* of the attachment, from 1; 0 = never used */
};

/* The code, which is position-independent and begins with its first instruction; *bytes is a multiple
 * of 16.  NULL: there is none for this processor. */
const char *stub_text(size_t *bytes);

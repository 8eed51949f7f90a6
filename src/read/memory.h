/* read/memory.h - memory of columns, which is used again for later batches of a stream.
 *
 * A batch has some 20 MiB.  Without this, malloc() gives them back to the kernel after each batch
 * that a program releases, and the kernel clears each page anew.
 */
#pragma once

#include <stddef.h>

struct pfw_read_memory; /* opaque: see memory.c */

/* NULL: no memory. */
struct pfw_read_memory *pfw_read_memory_new(void);

/* After the last get; what is in use remains valid.  NULL: nothing. */
void pfw_read_memory_close(struct pfw_read_memory *memory);

/* `bytes` bytes of any content, at a multiple of 64; memory NULL: not used again.  NULL: no memory.
 * Thread: any, as all here. */
void *pfw_read_memory_get(struct pfw_read_memory *memory, size_t bytes);

/* Return what pfw_read_memory_get() gave; NULL: nothing. */
void pfw_read_memory_put(void *content);

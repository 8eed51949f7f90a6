/* linehash.h - 64 bits that stand for a line; their sum stands for lines in any order.
 *
 * Written into manifests and into the headers of members: the function is part of the format.
 */
#ifndef PFW_LINEHASH_H
#define PFW_LINEHASH_H

#include <stddef.h>
#include <stdint.h>

/* Of a line without its '\n'; also of any other bytes.  Thread: any. */
uint64_t pfw_linehash(const char *line, size_t bytes);

/* The sum over all lines of a text, and their number.  Thread: any. */
uint64_t pfw_linehash_text(const char *text, size_t bytes, uint64_t *lines);

#endif

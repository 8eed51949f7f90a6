/* store/line/hash.h - a 64-bit hash of a line; the sum of hashes stands for lines in any order.
 *
 * Manifests and headers of members store it: the function is part of the format.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The hash of a line without its '\n', or of any other bytes.  Thread: any. */
uint64_t pfw_linehash(const char *line, size_t bytes);

/* The sum of the hashes of all lines of a text, and their number.  Thread: any. */
uint64_t pfw_linehash_text(const char *text, size_t bytes, uint64_t *lines);

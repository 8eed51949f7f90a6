/* recorder/guest/peek.h - read memory of the program that may not be there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copy from a program's pointer; false: unreadable.  Thread: any.  Signal: safe. */
bool pfw_peek(void *to, const void *from, size_t bytes);

/* Whether the aligned word at an address can be read; so can then the rest of its page.  Costs one
 * system call.  Thread: any.  Signal: safe. */
bool pfw_peek_word(uintptr_t address);

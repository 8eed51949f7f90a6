/* recorder/guest/peek.h - read memory of the program that may not be there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Copy from a program's pointer; false: unreadable.  Thread: any.  Signal: safe. */
bool pfw_peek(void *to, const void *from, size_t bytes);

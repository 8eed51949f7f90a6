/* linked_calls_target.c - calls_target.c linked to libpfw.so.1: a recorder without the preload object,
 * begun by pfw_start(). */
#define CALLS_LINKED
#include "calls_target.c"

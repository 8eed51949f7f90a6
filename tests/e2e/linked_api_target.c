/* linked_api_target.c - api_target.c linked to libpfw.so.1: a recorder without the preload object. */
#include "api_target.c"

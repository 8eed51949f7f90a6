/* store/line/frame.h - frames of args.stack: whose code one is, and the address of a native one.
 *
 * A Python frame is `FILE(LINE): FUNCTION`.  A native one is `PATH+0xOFFSET` as recorded; `pfw
 * symbolize` makes it one of the former kind, or `PATH: FUNCTION`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a frame is an address, PATH+0xOFFSET: *path_bytes and *offset (either may be NULL) get
 * its parts.  Thread: any, as all here. */
bool pfw_frame_address(const char *frame, size_t bytes, size_t *path_bytes, uint64_t *offset);

/*
 * Whether a program, library or source file is the user's: not a shared library or a header of the
 * system's directories, nor one of the C and C++ runtime, pfw, the Python interpreter, its standard
 * library or an installed package.
 */
bool pfw_frame_users_file(const char *path, size_t bytes);

/* The same of a frame.  One of a module that is not the user's ends with ` [PATH]` of the
 * module. */
bool pfw_frame_users(const char *frame, size_t bytes);

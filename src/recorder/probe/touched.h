/* recorder/probe/touched.h - how much of a mapping this process has touched. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The most pages that are looked at in one mapping: half a millisecond. */
#define PFW_TOUCHED_PAGES 8192u

/*
 * The bytes of [start, start + bytes), which begins at a page, whose pages are in this process's page
 * table, + 1.  Of more than `most` pages, that many are looked at, evenly spread, and the bytes are an
 * estimate.  0: the kernel does not say, or a seccomp filter might forbid the question.
 * Thread: any.  Signal: safe.  Keeps errno.
 */
uint64_t pfw_touched(uintptr_t start, size_t bytes, unsigned most);

/* common/base/tsan.h - whether this is a build for ThreadSanitizer.
 *
 * ThreadSanitizer does not see the memory accesses of assembly: each place that uses assembly for an
 * atomic operation needs this header, or ThreadSanitizer reports a false race.
 */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define PFW_TSAN 1
#elif defined(__has_feature)
#define PFW_TSAN __has_feature(thread_sanitizer)
#else
#define PFW_TSAN 0
#endif

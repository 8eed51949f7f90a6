/* common/base/tsan.h - whether this is a build for ThreadSanitizer.
 *
 * It does not see what assembly does in memory: each place that uses assembly for an atomic
 * operation needs this header, or a race is reported that is none.
 */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define PFW_TSAN 1
#elif defined(__has_feature)
#define PFW_TSAN __has_feature(thread_sanitizer)
#else
#define PFW_TSAN 0
#endif

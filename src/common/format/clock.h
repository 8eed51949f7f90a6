/* common/format/clock.h - the clock: ticks in probes, (ticks, time) pairs in the writer.
 *
 * Ticks are the processor's counter (TSC; CNTVCT on aarch64) if the kernel uses it as its
 * clocksource (a reading takes 10 ns instead of 23), else CLOCK_MONOTONIC in ns.  The writer takes
 * a pair at each drain and interpolates between pairs, so the error of an event's time is the noise
 * of a pair (tens of ns), however long the run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/format/spool.h"

/* Whether ticks are the counter; set once by pfw_clock_init(), before any probe runs. */
extern bool pfw_clock_is_counter;

/* The counter's name in a trace and as the kernel's clocksource; undefined: no counter. */
#if defined(__x86_64__)
#define PFW_CLOCK_COUNTER "tsc"
#define PFW_CLOCK_SOURCE "tsc"
#elif defined(__aarch64__)
#define PFW_CLOCK_COUNTER "cntvct"
#define PFW_CLOCK_SOURCE "arch_sys_counter"
#endif

/* CLOCK_MONOTONIC or CLOCK_REALTIME in ns, by vdso.  Thread: any.  Signal: safe. */
static inline uint64_t pfw_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The time that probes take.  Thread: any.  Signal: safe. */
static inline uint64_t pfw_clock_ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(pfw_clock_is_counter, 1))
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	if (__builtin_expect(pfw_clock_is_counter, 1)) {
		uint64_t ticks;

		/* isb: the counter must not be read ahead of earlier instructions. */
		__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
	}
#endif
	return pfw_clock_ns(CLOCK_MONOTONIC);
}

/* The source of ticks: PFW_CLOCK_COUNTER, or "monotonic". */
static inline const char *pfw_clock_name(void)
{
#ifdef PFW_CLOCK_COUNTER
	if (pfw_clock_is_counter)
		return PFW_CLOCK_COUNTER;
#endif
	return "monotonic";
}

/* Choose the tick source from the kernel's clocksource.  Thread: init.  Signal: safe. */
void pfw_clock_init(void);

/* ns to ticks.  Thread: init. */
uint64_t pfw_clock_ticks_of(uint64_t ns);

/* Pairs kept: long spans begin before the last drain. */
#define PFW_CLOCK_HISTORY 32

struct pfw_clock_map {
	struct pfw_clock_pair first;
	uint64_t first_width;			       /* ticks within which it was read */
	struct pfw_clock_pair pair[PFW_CLOCK_HISTORY]; /* oldest first */
	uint32_t count;
	int64_t real_offset_ns; /* in force; changes only at a step */
	uint64_t version;	/* differs after each change */
};

/* One linear piece of a map: for ticks - line.ticks < line.reach, while its version lasts. */
struct pfw_clock_line {
	uint64_t version;
	uint64_t ticks;
	uint64_t reach;
	uint64_t epoch_ns; /* at ticks */
	uint64_t mult;
};

/* Ticks within the line's reach to ns since the epoch. */
static inline uint64_t pfw_clock_line_ns(const struct pfw_clock_line *line, uint64_t ticks)
{
	unsigned __int128 away = (unsigned __int128)(ticks - line->ticks) * line->mult;

	return line->epoch_ns + (uint64_t)(away >> PFW_CLOCK_SHIFT);
}

/* Start a map with one pair taken now.  Thread: drain.  Signal: safe. */
void pfw_clock_map_init(struct pfw_clock_map *map);

/* Append a pair taken now.  Return true if CLOCK_REALTIME was stepped relative to CLOCK_MONOTONIC
 * since the previous pair; *from_ns and *to_ns then get the REALTIME before and after the step.
 * Thread: drain.  Signal: safe. */
bool pfw_clock_map_update(struct pfw_clock_map *map, uint64_t *from_ns, uint64_t *to_ns);

/* The map of a dead process, from the pairs in its slot.  Thread: any. */
void pfw_clock_map_restore(struct pfw_clock_map *map, const struct pfw_clock_pair *first,
			   const struct pfw_clock_pair *last);

/* The line that holds at `ticks`.  Thread: drain. */
void pfw_clock_map_line(const struct pfw_clock_map *map, uint64_t ticks,
			struct pfw_clock_line *line);

/* A number of ticks in ns, by the slope of the last pair.  Thread: drain. */
uint64_t pfw_clock_map_ns(const struct pfw_clock_map *map, uint64_t ticks);

/* Ticks to ns since the epoch; never decreases with ticks between two updates.  Thread: drain. */
uint64_t pfw_clock_map_epoch_ns(const struct pfw_clock_map *map, uint64_t ticks);

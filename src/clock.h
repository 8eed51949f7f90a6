/* clock.h - the one clock: ticks on the hot path, (ticks, time) pairs on the writer's side.
 *
 * Ticks are the processor's counter (the TSC, on aarch64 CNTVCT) where the kernel itself keeps time by
 * it (10 ns a reading against 23), else CLOCK_MONOTONIC in ns.  The writer takes a pair at each drain and interpolates between pairs, so
 * an event's time is off by no more than a pair's own noise (tens of ns) however long the run.
 */
#ifndef PFW_CLOCK_H
#define PFW_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "spool.h"

/* Ticks are the counter; set once by pfw_clock_init(), before any probe runs. */
extern bool pfw_clock_is_counter;

/* The counter's name in a trace, and as the kernel's clocksource; not defined: no counter. */
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

/* The hot path's time.  Thread: any.  Signal: safe. */
static inline uint64_t pfw_clock_ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(pfw_clock_is_counter, 1))
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	if (__builtin_expect(pfw_clock_is_counter, 1)) {
		uint64_t ticks;

		/* isb: else it may be read before what stands before it, an earlier reading too. */
		__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
	}
#endif
	return pfw_clock_ns(CLOCK_MONOTONIC);
}

/* What ticks are: PFW_CLOCK_COUNTER, or "monotonic". */
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

/* How many ticks make that many ns.  Thread: init. */
uint64_t pfw_clock_ticks_of(uint64_t ns);

/* Pairs old enough to matter: long spans begin before the last drain. */
#define PFW_CLOCK_HISTORY 32

struct pfw_clock_map {
	struct pfw_clock_pair first;
	struct pfw_clock_pair pair[PFW_CLOCK_HISTORY]; /* oldest first */
	uint32_t count;
	int64_t real_offset_ns; /* in force; changes only at a step */
	uint64_t version;	/* another one after each change */
};

/* One straight piece of a map: it holds for ticks - line.ticks < line.reach, as long as the map has
 * that version. */
struct pfw_clock_line {
	uint64_t version;
	uint64_t ticks;
	uint64_t reach;
	uint64_t epoch_ns; /* at ticks */
	uint64_t mult;
};

/* Ticks that the line reaches to ns since the epoch. */
static inline uint64_t pfw_clock_line_ns(const struct pfw_clock_line *line, uint64_t ticks)
{
	unsigned __int128 away = (unsigned __int128)(ticks - line->ticks) * line->mult;

	return line->epoch_ns + (uint64_t)(away >> PFW_CLOCK_SHIFT);
}

/* Start a map with one pair taken now.  Thread: drain.  Signal: safe. */
void pfw_clock_map_init(struct pfw_clock_map *map);

/*
 * Take a pair now and make it the last one.  Return true where CLOCK_REALTIME was stepped against
 * CLOCK_MONOTONIC since the one before; *from_ns and *to_ns then get the REALTIME before and after
 * the step.  Thread: drain.  Signal: safe.
 */
bool pfw_clock_map_update(struct pfw_clock_map *map, uint64_t *from_ns, uint64_t *to_ns);

/* A map for reading a dead process's rings: what its slot kept.  Thread: any. */
void pfw_clock_map_restore(struct pfw_clock_map *map, const struct pfw_clock_pair *first,
			   const struct pfw_clock_pair *last);

/* The line that holds at `ticks`.  Thread: drain. */
void pfw_clock_map_line(const struct pfw_clock_map *map, uint64_t ticks,
			struct pfw_clock_line *line);

/* How many ns that many ticks are, as long as the last pair's slope holds.  Thread: drain. */
uint64_t pfw_clock_map_ns(const struct pfw_clock_map *map, uint64_t ticks);

/* Ticks to ns since the epoch; never decreases with ticks between two updates.  Thread: drain. */
uint64_t pfw_clock_map_epoch_ns(const struct pfw_clock_map *map, uint64_t ticks);

#endif

/* common/format/clock.c - ticks to time by interpolation between pairs; see clock.h.
 *
 * The history covers the whole run, with gaps that grow with age: the begin of a span of hours is
 * as exact as its measurement.
 */
#include "common/format/clock.h"

#include <string.h>

#include "common/base/os.h"

#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* Each reading is bracketed by two of the other clock.  The narrowest bracket of a few tries
 * counts: the hypervisor or the scheduler may interrupt a try for milliseconds. */
#define TRIES 5
#define TRIES_MAX 50

/* The least change of the offset that counts as a step of REALTIME.  A bracket gives exact bounds
 * of the offset (usually 50 ns apart), and slewing moves both clocks alike, so an offset outside
 * them is a step.  The offset in force is itself off by up to half a bracket: 10 µs is far more
 * than that, and far less than shows in a trace. */
#define STEP_NS 10000

/* A pair replaces one that is nearer than this: 20 ns of noise over 100 µs is 0.2 ‰ of slope. */
#define APART_NS 100000

/* The slope for extrapolation needs a longer base: 20 ns over 0.1 s is 0.2 ppm. */
#define BASE_NS 100000000

/* The shortest base of the first slope: 20 ns over 20 µs is 1 ‰, until the next pair. */
#define FIRST_BASE_NS 20000

#define UNIT (1ull << PFW_CLOCK_SHIFT)

bool pfw_clock_is_counter;

/* A pair of start-up: the base of the writer's first slope.  Set once, before any thread. */
static struct pfw_clock_pair origin;
static uint64_t origin_width;

/* Read ticks and CLOCK_MONOTONIC at the same moment; return the width of the bracket in ticks. */
static uint64_t read_pair(struct pfw_clock_pair *pair)
{
	uint64_t narrowest = UINT64_MAX;
	int i;

	if (!pfw_clock_is_counter) {
		pair->mono_ns = pfw_clock_ns(CLOCK_MONOTONIC);
		pair->ticks = pair->mono_ns;
		return 0;
	}
	for (i = 0; i < TRIES; i++) {
		uint64_t before = pfw_clock_ticks();
		uint64_t mono_ns = pfw_clock_ns(CLOCK_MONOTONIC);
		uint64_t width = pfw_clock_ticks() - before;

		if (width < narrowest) {
			narrowest = width;
			pair->ticks = before + width / 2;
			pair->mono_ns = mono_ns;
		}
	}
	return narrowest;
}

struct offset {
	int64_t least, greatest; /* REALTIME - MONOTONIC is between these */
};

static struct offset read_offset(void)
{
	struct offset best = { INT64_MIN, INT64_MAX };
	uint64_t narrowest = UINT64_MAX;
	int i;

	/* A bracket wider than a step is useless: a busy machine gets more tries. */
	for (i = 0; i < TRIES || (i < TRIES_MAX && narrowest > STEP_NS); i++) {
		uint64_t before = pfw_clock_ns(CLOCK_MONOTONIC);
		uint64_t real = pfw_clock_ns(CLOCK_REALTIME);
		uint64_t after = pfw_clock_ns(CLOCK_MONOTONIC);

		if (after - before < narrowest) {
			narrowest = after - before;
			best.least = (int64_t)(real - after);
			best.greatest = (int64_t)(real - before);
		}
	}
	return best;
}

static int64_t middle(struct offset offset)
{
	return offset.least + (offset.greatest - offset.least) / 2;
}

/* ns per tick between two pairs that may be `noise` ticks further apart, rounded down. */
static uint64_t least_slope(const struct pfw_clock_pair *from, const struct pfw_clock_pair *to,
			    uint64_t noise)
{
	unsigned __int128 mult;

	if (to->ticks <= from->ticks || to->mono_ns < from->mono_ns)
		return UNIT;
	mult = ((unsigned __int128)(to->mono_ns - from->mono_ns) << PFW_CLOCK_SHIFT) /
	       (to->ticks - from->ticks + noise);
	return mult > UINT64_MAX ? UINT64_MAX : (uint64_t)mult;
}

/* ns per tick between two pairs, rounded down: the line never overshoots the later one. */
static uint64_t slope(const struct pfw_clock_pair *from, const struct pfw_clock_pair *to)
{
	return least_slope(from, to, 0);
}

void pfw_clock_init(void)
{
#ifdef PFW_CLOCK_SOURCE
	char name[32];

	pfw_clock_is_counter = pfw_os_read_file(CLOCKSOURCE, name, sizeof(name)) > 0 &&
			       strcmp(name, PFW_CLOCK_SOURCE "\n") == 0;
#endif
	origin_width = read_pair(&origin);
}

void pfw_clock_map_init(struct pfw_clock_map *map)
{
	struct pfw_clock_pair now = { 0 };

	memset(map, 0, sizeof(*map));
	map->first = origin;
	map->first_width = origin_width;
	if (!pfw_clock_is_counter || !origin.ticks)
		map->first_width = read_pair(&map->first);
	do {
		read_pair(&now);
	} while (pfw_clock_is_counter && now.ticks >= map->first.ticks &&
		 now.mono_ns - map->first.mono_ns < FIRST_BASE_NS);
	map->real_offset_ns = middle(read_offset());
	now.real_offset_ns = map->real_offset_ns;
	now.mult = pfw_clock_is_counter ? slope(&map->first, &now) : UNIT;
	if (now.ticks < map->first.ticks || now.mono_ns < map->first.mono_ns)
		map->first = now; /* the clocks restarted: the machine was migrated */
	map->first.real_offset_ns = now.real_offset_ns;
	map->first.mult = now.mult;
	map->pair[0] = now;
	map->count = 1;
	map->version = now.ticks;
}

void pfw_clock_map_restore(struct pfw_clock_map *map, const struct pfw_clock_pair *first,
			   const struct pfw_clock_pair *last)
{
	memset(map, 0, sizeof(*map));
	map->first = *first;
	if (first->ticks > last->ticks || first->mono_ns > last->mono_ns)
		map->first = *last;
	map->pair[0] = *last;
	map->count = 1;
	map->real_offset_ns = last->real_offset_ns;
	map->version = last->ticks;
	if (map->first.ticks < last->ticks)
		map->first.mult = slope(&map->first, last);
}

/* The slope after pair[last], which was read within `width` ticks, from a pair that is old enough;
 * the least that the readings allow.  A line that ran ahead of the next pair would let calls that
 * are drained before that pair end after the next calls begin. */
static uint64_t onward_slope(const struct pfw_clock_map *map, uint32_t last, uint64_t width)
{
	const struct pfw_clock_pair *to = &map->pair[last], *from = &map->first;
	uint64_t noise = (width + map->first_width) / 2;
	uint32_t i;

	if (!pfw_clock_is_counter)
		return UNIT;
	for (i = last; i-- > 0;) {
		if (to->mono_ns - map->pair[i].mono_ns >= BASE_NS) {
			from = &map->pair[i];
			noise = width /
				2; /* over such a time the error of the other pair is small */
			break;
		}
	}
	return from->ticks < to->ticks ? least_slope(from, to, noise) : to->mult;
}

/* Make room: drop the pair whose neighbours are closest in relation to their age.  The gaps grow
 * with age, so 32 pairs reach back to the start of any run. */
static void drop_pair(struct pfw_clock_map *map)
{
	uint64_t now_ns = map->pair[map->count - 1].mono_ns;
	uint32_t i, worst = 1;
	uint64_t worst_gap = UINT64_MAX;

	for (i = 1; i + 1 < map->count; i++) {
		uint64_t age = (now_ns - map->pair[i].mono_ns) >> 10;
		uint64_t gap = (map->pair[i + 1].mono_ns - map->pair[i - 1].mono_ns) / (age + 1);

		if (gap < worst_gap) {
			worst_gap = gap;
			worst = i;
		}
	}
	map->count--;
	memmove(&map->pair[worst], &map->pair[worst + 1],
		(map->count - worst) * sizeof(map->pair[0]));
	map->pair[worst - 1].mult = slope(&map->pair[worst - 1], &map->pair[worst]);
}

static void add_pair(struct pfw_clock_map *map, const struct pfw_clock_pair *now, uint64_t width)
{
	struct pfw_clock_pair *last = &map->pair[map->count - 1];

	if (now->ticks <= last->ticks || now->mono_ns < last->mono_ns) {
		/* The ticks restarted (the machine was migrated): earlier pairs are useless. */
		map->first = *now;
		map->first.mult = last->mult;
		map->pair[0] = map->first;
		map->count = 1;
		return;
	}
	if (map->count > 1 && now->mono_ns - map->pair[map->count - 2].mono_ns < APART_NS)
		map->count--;
	else if (map->count == PFW_CLOCK_HISTORY)
		drop_pair(map);
	map->pair[map->count++] = *now;
	last = &map->pair[map->count - 1];
	if (map->count > 1)
		last[-1].mult = slope(&last[-1], last);
	last->mult = onward_slope(map, map->count - 1, width);
	if (map->first.ticks < map->pair[0].ticks)
		map->first.mult = slope(&map->first, &map->pair[0]);
}

bool pfw_clock_map_update(struct pfw_clock_map *map, uint64_t *from_ns, uint64_t *to_ns)
{
	struct pfw_clock_pair now = { 0 };
	struct offset offset = read_offset();
	int64_t in_force = map->real_offset_ns;
	bool stepped = in_force < offset.least - STEP_NS || in_force > offset.greatest + STEP_NS;
	uint64_t width = read_pair(&now);

	if (stepped)
		map->real_offset_ns = middle(offset);
	now.real_offset_ns = map->real_offset_ns;
	add_pair(map, &now, width);
	map->version = now.ticks; /* unique: ticks of pairs only grow */
	if (stepped) {
		*from_ns = now.mono_ns + (uint64_t)in_force;
		*to_ns = now.mono_ns + (uint64_t)map->real_offset_ns;
	}
	return stepped;
}

/* The pair whose line holds at `ticks`: the last one not after it. */
static const struct pfw_clock_pair *pair_before(const struct pfw_clock_map *map, uint64_t ticks)
{
	uint32_t i = map->count - 1;

	/* From the newest: nearly all events are recent. */
	while (i && map->pair[i].ticks > ticks)
		i--;
	return map->pair[i].ticks > ticks ? &map->first : &map->pair[i];
}

/* The end of a pair's line: the next pair. */
static uint64_t line_end(const struct pfw_clock_map *map, const struct pfw_clock_pair *pair)
{
	if (pair == &map->first)
		return map->pair[0].ticks;
	return pair == &map->pair[map->count - 1] ? UINT64_MAX : pair[1].ticks;
}

/* ns to ticks, rounded down, at most UINT64_MAX. */
static uint64_t ticks_within(uint64_t ns, uint64_t mult)
{
	unsigned __int128 ticks = (unsigned __int128)ns << PFW_CLOCK_SHIFT;

	if (mult)
		ticks /= mult;
	return !mult || ticks > UINT64_MAX ? UINT64_MAX : (uint64_t)ticks;
}

/* Impossible ticks (of a torn record) saturate at 0 or INT64_MAX instead of wrapping around: their
 * line is a single point. */
void pfw_clock_map_line(const struct pfw_clock_map *map, uint64_t ticks,
			struct pfw_clock_line *line)
{
	const struct pfw_clock_pair *pair = pair_before(map, ticks);
	uint64_t base = pair->mono_ns + (uint64_t)map->real_offset_ns, room;
	unsigned __int128 before = 0;

	if (base > INT64_MAX)
		base = 0;
	*line = (struct pfw_clock_line){ map->version, ticks, 1, INT64_MAX, 0 };
	if (ticks < pair->ticks) {
		before = (unsigned __int128)(pair->ticks - ticks) * pair->mult >> PFW_CLOCK_SHIFT;
		line->epoch_ns = before > base ? 0 : base - (uint64_t)before;
		return;
	}
	room = ticks_within(INT64_MAX - base, pair->mult);
	if (ticks - pair->ticks >= room)
		return;
	line->ticks = pair->ticks;
	line->reach = line_end(map, pair) - pair->ticks;
	if (line->reach > room)
		line->reach = room;
	line->epoch_ns = base;
	line->mult = pair->mult;
}

uint64_t pfw_clock_map_epoch_ns(const struct pfw_clock_map *map, uint64_t ticks)
{
	struct pfw_clock_line line;

	pfw_clock_map_line(map, ticks, &line);
	return pfw_clock_line_ns(&line, ticks);
}

uint64_t pfw_clock_map_ns(const struct pfw_clock_map *map, uint64_t ticks)
{
	unsigned __int128 ns = (unsigned __int128)ticks * map->pair[map->count - 1].mult;

	return (uint64_t)(ns >> PFW_CLOCK_SHIFT);
}

uint64_t pfw_clock_ticks_of(uint64_t ns)
{
	struct pfw_clock_map map;

	pfw_clock_map_init(&map);
	return ticks_within(ns, map.pair[0].mult);
}

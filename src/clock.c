/* clock.c - ticks to time: pairs of (ticks, CLOCK_MONOTONIC), straight lines between them.
 *
 * The history covers the whole run: new pairs close together, old ones further apart, so that the
 * beginning of a span of hours is found as well as it was measured.
 */
#include "clock.h"

#include <string.h>

#include "os.h"

#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* Readings are bracketed, and of a few tries the narrowest bracket counts: a virtual machine or the
 * scheduler may take the processor away between two of them, for milliseconds. */
#define TRIES 5
#define TRIES_MAX 50

/*
 * A step of REALTIME is one that cannot be noise.  A bracket says exactly between which two values
 * the offset lies (as a rule 50 ns apart), and slewing moves both clocks alike, so any offset outside
 * it is a step.  The offset in force came out of a bracket itself, half of whose width it may be off:
 * 10 µs is far above that, and far below what would show in a trace.
 */
#define STEP_NS 10000

/* Pairs nearer than this replace each other: 20 ns of noise over 100 µs is 0.2 ‰ of slope. */
#define APART_NS 100000

/* Extrapolating needs a slope from further back: 20 ns over 0.1 s is 0.2 ppm. */
#define BASE_NS 100000000

/* The shortest base for a first slope: 20 ns over 20 µs is 1 ‰, until the next pair comes. */
#define FIRST_BASE_NS 20000

#define UNIT (1ull << PFW_CLOCK_SHIFT)

bool pfw_clock_is_counter;

/* Taken at start-up, so that the writer's first slope has a base; set once, before any thread. */
static struct pfw_clock_pair origin;

/* Read ticks and CLOCK_MONOTONIC at the same moment. */
static void read_pair(struct pfw_clock_pair *pair)
{
	uint64_t narrowest = UINT64_MAX;
	int i;

	if (!pfw_clock_is_counter) {
		pair->mono_ns = pfw_clock_ns(CLOCK_MONOTONIC);
		pair->ticks = pair->mono_ns;
		return;
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
}

struct offset {
	int64_t least, greatest; /* REALTIME - MONOTONIC is between these */
};

static struct offset read_offset(void)
{
	struct offset best = { INT64_MIN, INT64_MAX };
	uint64_t narrowest = UINT64_MAX;
	int i;

	/* One wider than a step is of no use: then a few more, on a machine so busy. */
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

/* ns per tick between two pairs; rounded down, so that the line never passes the later one. */
static uint64_t slope(const struct pfw_clock_pair *from, const struct pfw_clock_pair *to)
{
	unsigned __int128 mult;

	if (to->ticks <= from->ticks || to->mono_ns < from->mono_ns)
		return UNIT;
	mult = ((unsigned __int128)(to->mono_ns - from->mono_ns) << PFW_CLOCK_SHIFT) /
	       (to->ticks - from->ticks);
	return mult > UINT64_MAX ? UINT64_MAX : (uint64_t)mult;
}

void pfw_clock_init(void)
{
#ifdef PFW_CLOCK_SOURCE
	char name[32];

	pfw_clock_is_counter = pfw_os_read_file(CLOCKSOURCE, name, sizeof(name)) > 0 &&
			       strcmp(name, PFW_CLOCK_SOURCE "\n") == 0;
#endif
	read_pair(&origin);
}

void pfw_clock_map_init(struct pfw_clock_map *map)
{
	struct pfw_clock_pair now = { 0 };

	memset(map, 0, sizeof(*map));
	map->first = origin;
	if (!pfw_clock_is_counter || !origin.ticks)
		read_pair(&map->first);
	do {
		read_pair(&now);
	} while (pfw_clock_is_counter && now.ticks >= map->first.ticks &&
		 now.mono_ns - map->first.mono_ns < FIRST_BASE_NS);
	map->real_offset_ns = middle(read_offset());
	now.real_offset_ns = map->real_offset_ns;
	now.mult = pfw_clock_is_counter ? slope(&map->first, &now) : UNIT;
	if (now.ticks < map->first.ticks || now.mono_ns < map->first.mono_ns)
		map->first = now; /* the clocks began anew: moved to another machine */
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

/* The slope to go on with behind pair[last], from a pair long enough before it. */
static uint64_t onward_slope(const struct pfw_clock_map *map, uint32_t last)
{
	const struct pfw_clock_pair *to = &map->pair[last], *from = &map->first;
	uint32_t i;

	if (!pfw_clock_is_counter)
		return UNIT;
	for (i = last; i-- > 0;) {
		if (to->mono_ns - map->pair[i].mono_ns >= BASE_NS) {
			from = &map->pair[i];
			break;
		}
	}
	return from->ticks < to->ticks ? slope(from, to) : to->mult;
}

/*
 * Make room by dropping the pair whose neighbours are closest for their age: what stays has gaps
 * that grow with age, so 32 pairs reach back to the start of any run.
 */
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

static void add_pair(struct pfw_clock_map *map, const struct pfw_clock_pair *now)
{
	struct pfw_clock_pair *last = &map->pair[map->count - 1];

	if (now->ticks <= last->ticks || now->mono_ns < last->mono_ns) {
		/* Ticks began anew (the machine was moved): what was before is no guide. */
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
	last->mult = onward_slope(map, map->count - 1);
	if (map->first.ticks < map->pair[0].ticks)
		map->first.mult = slope(&map->first, &map->pair[0]);
}

bool pfw_clock_map_update(struct pfw_clock_map *map, uint64_t *from_ns, uint64_t *to_ns)
{
	struct pfw_clock_pair now = { 0 };
	struct offset offset = read_offset();
	int64_t in_force = map->real_offset_ns;
	bool stepped = in_force < offset.least - STEP_NS || in_force > offset.greatest + STEP_NS;

	read_pair(&now);
	if (stepped)
		map->real_offset_ns = middle(offset);
	now.real_offset_ns = map->real_offset_ns;
	add_pair(map, &now);
	map->version = now.ticks; /* pairs never have the same */
	if (stepped) {
		*from_ns = now.mono_ns + (uint64_t)in_force;
		*to_ns = now.mono_ns + (uint64_t)map->real_offset_ns;
	}
	return stepped;
}

/* The pair whose line holds at `ticks`: the last one that is not after it. */
static const struct pfw_clock_pair *pair_before(const struct pfw_clock_map *map, uint64_t ticks)
{
	uint32_t i = map->count - 1;

	/* From the newest: nearly all that is asked for is recent. */
	while (i && map->pair[i].ticks > ticks)
		i--;
	return map->pair[i].ticks > ticks ? &map->first : &map->pair[i];
}

/* Up to where a pair's line holds: the next pair. */
static uint64_t line_end(const struct pfw_clock_map *map, const struct pfw_clock_pair *pair)
{
	if (pair == &map->first)
		return map->pair[0].ticks;
	return pair == &map->pair[map->count - 1] ? UINT64_MAX : pair[1].ticks;
}

/* Ticks of `mult` that make that many ns, at most. */
static uint64_t ticks_within(uint64_t ns, uint64_t mult)
{
	unsigned __int128 ticks = (unsigned __int128)ns << PFW_CLOCK_SHIFT;

	if (mult)
		ticks /= mult;
	return !mult || ticks > UINT64_MAX ? UINT64_MAX : (uint64_t)ticks;
}

/* Ticks that no clock gave (a torn record) end at the limits, 0 and INT64_MAX, instead of going
 * round: such a line is one point. */
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

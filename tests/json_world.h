/* json_world.h - a small spool in memory for what tests, fuzzes and times the encoder. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode/encode.h"

#define WORLD_PID 8978u
#define WORLD_TID 8979u

/* The templates, by number. */
enum world_template {
	WORLD_NOTHING, /* shape NONE: explains no record */
	WORLD_PREAD,   /* fd count offset */
	WORLD_RENAME,  /* target, a string in the tail; no fd */
	WORLD_EVERY,   /* fd and a field of each other type */
	WORLD_LONG,    /* fd and eight numbers: values in the tail */
	WORLD_API,
	WORLD_PP,
	WORLD_BAD_KEY,	 /* names a key that is not there */
	WORLD_BAD_COUNT, /* more fields than a template has */
	WORLD_TEMPLATES
};

struct world {
	struct pfw_json json;
	struct pfw_clock_map clock;
	struct pfw_string_view view;
	struct pfw_template_chunk *templates;
	char *segment; /* segment 0 of the strings */
	uint32_t next_granule;
	char *cache;
	char *line; /* room for one */
};

static inline const struct pfw_key *world_keys(void)
{
	static const struct pfw_key keys[PFW_KEYS_MAX] = {
		{ "fd", PFW_TYPE_I64 },
		{ "count", PFW_TYPE_U64 },
		{ "offset", PFW_TYPE_I64 },
		{ "target", PFW_TYPE_STRING },
		{ "flags", PFW_TYPE_U64 },
		{ "ratio", PFW_TYPE_F64 },
		{ "ok", PFW_TYPE_BOOL },
		{ "shape", PFW_TYPE_JSON },
		{ "other", PFW_TYPE_REF },
		{ "grid", PFW_TYPE_DIM3 },
		{ "kind", PFW_TYPE_KIND },
		/* A key that needs escaping, of all the bytes there are. */
		{ "\"\\\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24\25", PFW_TYPE_I64 },
	};

	return keys;
}
#define WORLD_KEYS 12

static inline void world_add_templates(struct world *world)
{
	static const struct pfw_template templates[WORLD_TEMPLATES] = {
		[WORLD_PREAD] = { "pread", "POSIX", PFW_SHAPE_CALL, 3, { 0, 1, 2 }, 0 },
		[WORLD_RENAME] = { "rename", "POSIX", PFW_SHAPE_CALL, 1, { 3 }, 0 },
		[WORLD_EVERY] = { "every",
				  "STDIO",
				  PFW_SHAPE_CALL,
				  9,
				  { 0, 4, 5, 6, 7, 8, 9, 10, 3 },
				  0 },
		[WORLD_LONG] = { "long",
				 "POSIX",
				 PFW_SHAPE_CALL,
				 9,
				 { 0, 1, 2, 4, 1, 2, 4, 1, 11 },
				 0 },
		[WORLD_API] = { "", "", PFW_SHAPE_API, 0, { 0 }, 0 },
		[WORLD_PP] = { "", "PP", PFW_SHAPE_PP, 0, { 0 }, 0 },
		[WORLD_BAD_KEY] = { "bad", "POSIX", PFW_SHAPE_CALL, 1, { WORLD_KEYS }, 0 },
		[WORLD_BAD_COUNT] = { "bad",
				      "POSIX",
				      PFW_SHAPE_CALL,
				      PFW_TEMPLATE_FIELDS + 1,
				      { 0 },
				      0 },
	};
	size_t bytes = sizeof(*world->templates) + sizeof(templates);

	world->templates = calloc(1, bytes);
	memcpy(world->templates->key, world_keys(), sizeof(world->templates->key));
	memcpy(world->templates->template, templates, sizeof(templates));
	world->templates->key_count = WORLD_KEYS;
	world->templates->template_count = WORLD_TEMPLATES;
}

/* Forget all that the encoder keeps: names, lanes, ids. */
static inline void world_reset(struct world *world)
{
	memset(world->cache, 0, pfw_json_cache_bytes(WORLD_TEMPLATES));
	memset(&world->json, 0, sizeof(world->json));
	world->json.templates = world->templates;
	world->json.strings = &world->view;
	world->json.clock = &world->clock;
	world->json.pid = WORLD_PID;
	world->json.metadata = true;
	pfw_json_init(&world->json, world->cache);
}

static inline void world_open(struct world *world)
{
	memset(world, 0, sizeof(*world));
	world_add_templates(world);
	world->segment = calloc(1, PFW_STRING_SEGMENT_BYTES);
	world->next_granule = 1;
	world->view.segment[0] = world->segment;
	world->cache = malloc(pfw_json_cache_bytes(WORLD_TEMPLATES));
	world->line = malloc(PFW_JSON_LINE_MAX + PFW_JSON_SLACK);
	if (!world->templates || !world->segment || !world->cache || !world->line)
		abort();
	/* Ticks are ns, and time began a year before the day these tests were written. */
	world->clock.count = 1;
	world->clock.first.mult = 1ull << PFW_CLOCK_SHIFT;
	world->clock.pair[0] = world->clock.first;
	world->clock.real_offset_ns = 1763700000000000000;
	world_reset(world);
}

static inline void world_close(struct world *world)
{
	free(world->templates);
	free(world->segment);
	free(world->cache);
	free(world->line);
}

static inline struct pfw_string *world_cell(const struct world *world, uint32_t ref)
{
	return (struct pfw_string *)(world->segment + (ref & 4095) * PFW_STRING_GRANULE);
}

/* Put text into the strings and return its reference. */
static inline uint32_t world_string(struct world *world, const char *text, size_t bytes)
{
	uint32_t granule = world->next_granule, ref = pfw_string_ref(1, granule);
	struct pfw_string *cell = world_cell(world, ref);

	world->next_granule +=
		(uint32_t)((sizeof(*cell) + bytes + PFW_STRING_GRANULE - 1) / PFW_STRING_GRANULE);
	if (world->next_granule * PFW_STRING_GRANULE > PFW_STRING_SEGMENT_BYTES)
		abort();
	cell->bytes = (uint16_t)bytes;
	memcpy(cell->text, text, bytes);
	atomic_store(&cell->generation, 1);
	return ref;
}

/* A cached 4 KiB pread, the call that everything is measured by. */
static inline struct pfw_record world_pread(uint32_t file, uint64_t n)
{
	return (struct pfw_record){
		.template = WORLD_PREAD,
		.slots = 1,
		.t0 = 31530878627639123 + n * 700,
		.dur = 412 + n % 97,
		.file = file,
		.value = { 4096, 3, 4096, (n * 4096) & 0x3ffffff },
	};
}

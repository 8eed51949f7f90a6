/* fuzz_config.c - any environment: no crash, every setting within its documented range, one-line
 * complaints; then what is made of the settings: rank, run, the trace's name, what is filtered.
 *
 * The input is entries ended by a NUL.  The first byte of an entry says what it is: 1 an argument of
 * the program, 2 a base name, 3 a path to filter; from 128 on the variable of that number followed
 * by the rest ("\x85=5MiB", but also "\x85S=1"); anything else is an entry of the environment.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/format/spool.h"
#include "common/settings/config.h"
#include "common/settings/naming.h"
#include "recorder/probe/path_filter.h"

#define ENTRIES_MAX 64
#define LINE_BYTES 768

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the entries of one input are, each list ended by NULL. */
struct input {
	char *environ[ENTRIES_MAX + 1], *argv[ENTRIES_MAX + 1];
	char *base[ENTRIES_MAX + 1], *path[ENTRIES_MAX + 1];
	size_t environ_count, argv_count, base_count, path_count;
};

/* All that one reading said. */
struct said {
	unsigned lines;
	uint64_t hash;
	const struct pfw_config *config;
	bool quiet; /* when the first line was said */
};

/* An entry in an allocation of its own size, so that a byte read behind it is seen. */
static char *copy_entry(const uint8_t *at, size_t bytes)
{
	size_t rows;
	const struct pfw_config_row *row = pfw_config_rows(&rows);
	const char *name = bytes && *at >= 128 ? row[(*at - 128u) % rows].name : "";
	size_t skip = bytes && (*at >= 128 || (*at >= 1 && *at <= 3)), named = strlen(name);
	char *entry = malloc(named + bytes - skip + 1);

	assert(entry);
	memcpy(entry, name, named);
	memcpy(entry + named, at + skip, bytes - skip);
	entry[named + bytes - skip] = '\0';
	return entry;
}

static void add_entry(struct input *input, const uint8_t *at, size_t bytes)
{
	char *entry = copy_entry(at, bytes);

	switch (bytes ? *at : 0) {
	case 1:
		input->argv[input->argv_count++] = entry;
		break;
	case 2:
		input->base[input->base_count++] = entry;
		break;
	case 3:
		input->path[input->path_count++] = entry;
		break;
	default:
		input->environ[input->environ_count++] = entry;
	}
}

static void split(struct input *input, const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;

	memset(input, 0, sizeof(*input));
	for (unsigned i = 0; i < ENTRIES_MAX && data < end; i++) {
		const uint8_t *nul = memchr(data, 0, (size_t)(end - data));
		const uint8_t *stop = nul ? nul : end;

		add_entry(input, data, (size_t)(stop - data));
		data = stop + 1;
	}
}

static void release(struct input *input)
{
	char **lists[] = { input->environ, input->argv, input->base, input->path };

	for (size_t i = 0; i < 4; i++)
		for (char **entry = lists[i]; *entry; entry++)
			free(*entry);
}

/* ---- what is said ---- */

static void check_line(void *user, const char *line)
{
	struct said *said = user;
	size_t bytes = strlen(line);

	assert(bytes > 0 && bytes < LINE_BYTES);
	/* The variable is ours, or one that PFW_RANK_VAR names. */
	assert(!strncmp(line, "PFW_", 4) || !strncmp(line, "DFTRACER_", 9) ||
	       strstr(line, ": bad value: PFW_RANK_VAR names it, "));
	for (size_t i = 0; i < bytes; i++) {
		assert((unsigned char)line[i] >= ' ' && line[i] != 127);
		said->hash = said->hash * 31 + (unsigned char)line[i];
	}
	if (!said->lines++)
		said->quiet = said->config->quiet;
}

/* ---- the settings ---- */

static bool is_flag(const bool *flag)
{
	unsigned char byte;

	memcpy(&byte, flag, 1);
	return byte <= 1;
}

static void check_ranges(const struct pfw_config *config)
{
	const bool *flags[] = {
		&config->enable_set,	&config->enable,       &config->compression,
		&config->metadata,	&config->disable_io,   &config->disable_posix,
		&config->disable_stdio, &config->disable_tids, &config->whole_us,
		&config->quiet,
	};
	const char *texts[] = { config->log_file, config->data_dir, config->spool_dir,
				config->run,	  config->rank_var, config->ranks };

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		assert(is_flag(flags[i]));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert(!texts[i] || *texts[i]); /* an empty value counts as unset */
	assert(config->log_file);
	assert(config->init == PFW_INIT_FUNCTION || config->init == PFW_INIT_PRELOAD);
	assert(config->on_full == PFW_ON_FULL_BLOCK || config->on_full == PFW_ON_FULL_DROP);
	assert(config->ring_max_bytes >= 32768 && config->ring_max_bytes <= 64u << 20);
	assert(!(config->ring_max_bytes & (config->ring_max_bytes - 1)));
	assert(config->flush_ns >= 1000000 && config->flush_ns <= 60000000000);
	assert(config->write_buffer_bytes >= 4096 && config->write_buffer_bytes <= 1u << 20);
	assert(config->rank >= -1 && config->rank <= INT32_MAX);
	assert(!config->ranks || pfw_config_ranks_hold(config->ranks, 0) >= 0);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static void assert_same(const struct pfw_config *a, const struct pfw_config *b)
{
	assert(a->enable == b->enable && a->init == b->init && a->on_full == b->on_full);
	assert(same_text(a->log_file, b->log_file) && same_text(a->data_dir, b->data_dir));
	assert(same_text(a->spool_dir, b->spool_dir) && same_text(a->run, b->run));
	assert(same_text(a->rank_var, b->rank_var) && same_text(a->ranks, b->ranks));
	assert(a->compression == b->compression && a->metadata == b->metadata);
	assert(a->disable_io == b->disable_io && a->disable_posix == b->disable_posix);
	assert(a->disable_stdio == b->disable_stdio && a->disable_tids == b->disable_tids);
	assert(a->whole_us == b->whole_us && a->quiet == b->quiet && a->rank == b->rank);
	assert(a->ring_max_bytes == b->ring_max_bytes && a->flush_ns == b->flush_ns);
	assert(a->write_buffer_bytes == b->write_buffer_bytes);
}

/* What `pfw config` shows as being in effect, put into an environment, is in effect there. */
static void check_shown(const struct pfw_config *config, char *const *environ)
{
	size_t rows, count = 0;
	const struct pfw_config_row *row = pfw_config_rows(&rows);
	char **shown = calloc(rows + 1, sizeof(*shown));
	struct pfw_config again;

	assert(shown);
	for (size_t i = 0; i < rows; i++) {
		const char *given = pfw_config_lookup(environ, row[i].name);
		size_t size = strlen(row[i].name) + (given ? strlen(given) : 0) + 64;
		char *value = malloc(size), *entry = malloc(size + 64);

		assert(value && entry);
		if (pfw_config_value(&row[i], environ, value, size)) {
			snprintf(entry, size + 64, "%s=%s", row[i].name, value);
			shown[count++] = entry;
		} else {
			assert(!strcmp(value, row[i].fallback) || strlen(row[i].fallback) >= size);
			free(entry);
		}
		free(value);
	}
	pfw_config_read_enabled(&again, shown, NULL, NULL);
	assert_same(config, &again);
	for (size_t i = 0; i < count; i++)
		free(shown[i]);
	free(shown);
}

static void check_config(struct pfw_config *config, char *const *environ)
{
	struct pfw_config asked, defaults;
	struct said said = { .config = config }, again = { .config = &asked };

	memset(config, 0xa5, sizeof(*config));
	memset(&asked, 0x5a, sizeof(asked));
	errno = 4711;
	pfw_config_read_enabled(config, environ, check_line, &said);
	check_ranges(config);
	assert(config->enable && (!said.lines || said.quiet == config->quiet));
	pfw_config_read(&asked, environ, check_line, &again);
	check_ranges(&asked);
	if (asked.enable) {
		assert_same(config, &asked);
		assert(said.lines == again.lines && said.hash == again.hash);
	} else {
		pfw_config_read(&defaults, (char *[]){ NULL }, NULL, NULL);
		assert(again.lines <= 1 && asked.quiet == config->quiet);
		asked.quiet = false;
		assert_same(&defaults, &asked);
	}
	assert(!again.lines || again.quiet == config->quiet);
	assert(errno == 4711);
	check_shown(config, environ);
}

/* ---- what is made of them ---- */

static void check_rank(const struct pfw_rank *rank)
{
	assert(rank->rank >= -1 && rank->local_rank >= -1);
	assert(rank->world_size == 0 || rank->world_size > rank->rank);
	assert(rank->rank >= 0 || rank->world_size == 1);
	assert(memchr(rank->source, 0, sizeof(rank->source)) && rank->source[0]);
	assert(!rank->launcher || rank->rank < 0);
}

static void check_run(const struct pfw_config *config, char *const *environ)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789._:@-";
	char run[128];

	pfw_run_find(run, sizeof(run), config, environ, "host-4711-12");
	assert(*run && !run[strspn(run, plain)]);
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

static void check_path(const char *path, bool compressed)
{
	const char *slash = strrchr(path, '/');

	assert(*path == '/' && strlen(path) < PFW_PATH_MAX && strlen(slash + 1) < PFW_NAME_MAX);
	assert(ends_with(path, compressed ? ".pfw.gz" : ".pfw"));
}

static void check_name(const struct pfw_config *config, const struct pfw_rank *rank,
		       const char *base, char *const *environ)
{
	struct pfw_name name = {
		.base = base,
		.cwd = "/home/user",
		.host = "node-7",
		.job = pfw_config_lookup(environ, "SLURM_JOB_ID"),
		.environ = environ,
		.rank = rank,
		.pid = 4711,
		.child = config->disable_tids, /* one setting is as good as another */
		.compression = config->compression,
	};
	char path[PFW_PATH_MAX], second[PFW_PATH_MAX];
	bool compressed;
	int error = pfw_name_build(path, &name, &compressed);

	assert(!error || error == -EINVAL || error == -ENAMETOOLONG);
	if (error)
		return;
	check_path(path, compressed);
	if (!pfw_name_numbered(second, path, 2)) {
		check_path(second, compressed);
		assert(strlen(second) == strlen(path) + 2);
	}
}

/* What is left out is counted, once; and how a path is written makes no difference. */
static void check_filter(const struct pfw_config *config, const struct input *input)
{
	_Atomic uint64_t counters[PFW_EXCLUDED_REASONS] = { 0 };

	pfw_path_filter_count_into(counters);
	pfw_path_filter_init(config,
			     &(const struct pfw_path_filter_python){
				     .exe = input->argv[0],
				     .called = input->argv[0],
				     .venv = pfw_config_lookup(input->environ, "VIRTUAL_ENV"),
				     .cwd = "/w" });
	pfw_path_filter_set_trace("/home/user/trace.pfw.gz");
	for (char *const *path = input->path; *path; path++) {
		size_t bytes = strlen(*path);
		uint64_t before = 0, after = 0;
		char longer[512];
		bool traced;

		for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
			before += counters[i];
		traced = pfw_path_filter_path(*path, bytes);
		for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
			after += counters[i];
		assert(after == before + !traced);
		/* But for a directory called x.so: "x.so/" is none, and folding drops the slash. */
		if (**path == '/' && bytes + 2 < sizeof(longer) && (*path)[bytes - 1] != '/') {
			snprintf(longer, sizeof(longer), "/.%s", *path);
			assert(pfw_path_filter_path(longer, bytes + 2) == traced);
		}
	}
	pfw_path_filter_count_into(NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pfw_config config;
	struct pfw_rank rank;
	struct input input;

	split(&input, data, size);
	check_config(&config, input.environ);
	pfw_rank_find(&rank, &config, input.environ, (int)input.argv_count, input.argv);
	check_rank(&rank);
	check_run(&config, input.environ);
	check_name(&config, &rank, config.log_file, input.environ);
	for (char **base = input.base; *base; base++)
		check_name(&config, &rank, *base, input.environ);
	check_filter(&config, &input);
	release(&input);
	return 0;
}

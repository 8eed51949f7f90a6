/* common/settings/kinds.c - parsers of the kinds of values in config.def. */
#include "common/settings/kinds.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/units.h"
#include "common/settings/config.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)
#define RANK_MAX 2147483647ull
#define EVERY_MAX 1000000000u

enum pfw_parsed pfw_parse_flag(const char *text, void *out)
{
	static const char *const words[] = { "0", "1", "false", "true", "no", "yes", "off", "on" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (pfw_text_same(text, words[i])) {
			*(bool *)out = i % 2 == 1;
			return PFW_PARSED;
		}
	}
	return PFW_PARSED_BAD;
}

enum pfw_parsed pfw_parse_text(const char *text, void *out)
{
	*(const char **)out = text;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_init(const char *text, void *out)
{
	bool preload = pfw_text_same(text, "PRELOAD");

	if (!preload && !pfw_text_same(text, "FUNCTION"))
		return PFW_PARSED_BAD;
	*(enum pfw_init *)out = preload ? PFW_INIT_PRELOAD : PFW_INIT_FUNCTION;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_on_full(const char *text, void *out)
{
	bool drop = pfw_text_same(text, "drop");

	if (!drop && !pfw_text_same(text, "block"))
		return PFW_PARSED_BAD;
	*(enum pfw_on_full *)out = drop ? PFW_ON_FULL_DROP : PFW_ON_FULL_BLOCK;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_time_metric(const char *text, void *out)
{
	if (pfw_text_same(text, "US")) {
		*(bool *)out = true;
		return PFW_PARSED;
	}
	if (pfw_text_same(text, "NS") || pfw_text_same(text, "MS") || pfw_text_same(text, "SEC"))
		return PFW_PARSED_NO_EFFECT;
	return PFW_PARSED_BAD;
}

enum pfw_parsed pfw_parse_log_level(const char *text, void *out)
{
	static const char *const words[] = { "ERROR", "WARN", "INFO", "DEBUG" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (pfw_text_same(text, words[i]))
			return pfw_parse_text(text, out);
	}
	return PFW_PARSED_BAD;
}

static enum pfw_parsed parse_bytes_within(const char *text, uint64_t least, uint64_t most,
					  uint64_t *bytes)
{
	uint64_t value;

	if (!pfw_units_size(text, strlen(text), &value) || value < least || value > most)
		return PFW_PARSED_BAD;
	*bytes = value;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_ring_bytes(const char *text, void *out)
{
	uint64_t bytes;

	if (parse_bytes_within(text, 32 * KIB, 64 * MIB, &bytes) == PFW_PARSED_BAD)
		return PFW_PARSED_BAD;
	/* Rounded down to a power of two: indexing is then a mask instead of a division. */
	*(uint64_t *)out = 1ull << (63 - __builtin_clzll(bytes));
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_buffer_bytes(const char *text, void *out)
{
	return parse_bytes_within(text, 4 * KIB, MIB, out);
}

enum pfw_parsed pfw_parse_max_bytes(const char *text, void *out)
{
	return parse_bytes_within(text, 64 * KIB, UINT64_MAX, out);
}

enum pfw_parsed pfw_parse_flush_ms(const char *text, void *out)
{
	uint64_t ms;
	const char *end = pfw_text_read_u64(text, &ms);

	if (!end || *end != '\0' || ms < 1 || ms > 60000)
		return PFW_PARSED_BAD;
	*(uint64_t *)out = ms * 1000000;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_duration(const char *text, void *out)
{
	return pfw_units_ns(text, strlen(text), out) ? PFW_PARSED : PFW_PARSED_BAD;
}

enum pfw_parsed pfw_parse_interval(const char *text, void *out)
{
	uint64_t ns;

	if (pfw_parse_duration(text, &ns) == PFW_PARSED_BAD || ns < 10000000)
		return PFW_PARSED_BAD;
	*(uint64_t *)out = ns;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_rank(const char *text, void *out)
{
	uint64_t rank;
	const char *end = pfw_text_read_u64(text, &rank);

	if (!end || *end != '\0' || rank > RANK_MAX)
		return PFW_PARSED_BAD;
	*(int64_t *)out = (int64_t)rank;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_ranks(const char *text, void *out)
{
	return pfw_config_ranks_hold(text, 0) < 0 ? PFW_PARSED_BAD : pfw_parse_text(text, out);
}

/* Length of the identifier at the start of `text`. */
static size_t word_bytes(const char *text)
{
	size_t n = 0;

	while ((text[n] >= 'A' && text[n] <= 'Z') || (text[n] >= 'a' && text[n] <= 'z') ||
	       text[n] == '_' || (n > 0 && text[n] >= '0' && text[n] <= '9'))
		n++;
	return n;
}

enum pfw_parsed pfw_parse_name(const char *text, void *out)
{
	size_t n = word_bytes(text);

	return n == 0 || text[n] != '\0' ? PFW_PARSED_BAD : pfw_parse_text(text, out);
}

static uint32_t gpu_word(const char *word, size_t bytes)
{
	static const struct {
		const char *word;
		uint32_t bit;
	} words[] = {
#define X(name, bit, word) { word, bit },
		PFW_GPU_WORDS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].word) == bytes && !memcmp(words[i].word, word, bytes))
			return words[i].bit;
	return 0;
}

enum pfw_parsed pfw_parse_gpu(const char *text, void *out)
{
	uint32_t bits = PFW_GPU_ASKED;
	bool flag;

	if (pfw_text_same(text, "auto")) {
		*(uint32_t *)out = PFW_GPU_USUAL;
		return PFW_PARSED;
	}
	if (pfw_parse_flag(text, &flag) == PFW_PARSED) {
		*(uint32_t *)out = flag ? PFW_GPU_ASKED | PFW_GPU_USUAL : 0;
		return PFW_PARSED;
	}
	for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
		uint32_t bit = gpu_word(at, word_bytes(at));

		end = at + word_bytes(at);
		if (!bit || (*end != '\0' && *end != ','))
			return PFW_PARSED_BAD;
		bits |= bit;
	}
	*(uint32_t *)out = bits;
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_schedule(const char *text, void *out)
{
	struct pfw_plan plan;

	if (!pfw_plan_parse(&plan, text))
		return PFW_PARSED_BAD;
	memcpy(out, &plan, sizeof(plan));
	return PFW_PARSED;
}

enum pfw_parsed pfw_parse_keep(const char *text, void *out)
{
	return pfw_keep_parse(out, text) ? PFW_PARSED : PFW_PARSED_BAD;
}

enum pfw_parsed pfw_parse_dump_on(const char *text, void *out)
{
	return pfw_dump_on_parse(out, text) ? PFW_PARSED : PFW_PARSED_BAD;
}

/* "min:1ms" or "every:1000". */
enum pfw_parsed pfw_parse_stack(const char *text, void *out)
{
	struct pfw_stack_when when = { 0 };
	const char *end;

	if (!strncmp(text, "min:", 4)) {
		text += 4;
		if (!pfw_units_ns(text, strlen(text), &when.min_ns) || !when.min_ns)
			return PFW_PARSED_BAD;
	} else if (!strncmp(text, "every:", 6)) {
		end = pfw_text_read_u64(text + 6, &when.every);
		if (!end || *end || !when.every || when.every > EVERY_MAX)
			return PFW_PARSED_BAD;
	} else {
		return PFW_PARSED_BAD;
	}
	*(struct pfw_stack_when *)out = when;
	return PFW_PARSED;
}

bool pfw_calls_adds(const char *calls)
{
	return calls && (*calls == '+' || strstr(calls, ",+"));
}

int pfw_config_ranks_hold(const char *ranks, uint64_t rank)
{
	bool held = false;

	for (;; ranks++) {
		uint64_t first, last;

		ranks = pfw_text_read_u64(ranks, &first);
		last = first;
		if (ranks && *ranks == '-')
			ranks = pfw_text_read_u64(ranks + 1, &last);
		if (!ranks || first > last || last > RANK_MAX)
			return -EINVAL;
		held |= first <= rank && rank <= last;
		if (*ranks == '\0')
			return held;
		if (*ranks != ',')
			return -EINVAL;
	}
}

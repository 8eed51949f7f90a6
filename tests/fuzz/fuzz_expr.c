/* fuzz_expr.c - any expression against any line: no crash, no endless work, the same answer twice,
 * and never true where pfw_expr_may() said that it cannot be.
 *
 * The input is an expression, a newline, and a line of a trace; without one, a line of ours.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/expr/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char ours[] =
	"{\"id\":12,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":8978,\"tid\":8979,\"ts\":100.123,"
	"\"dur\":10.412,\"ph\":\"X\",\"args\":{\"fname\":\"/a\\\"b.npz\",\"ret\":-4096,\"x\":0.1,"
	"\"o\":{\"k\":[1]},\"t\":true,\"n\":null}}";

/* A text without escapes. */
static void know(struct pfw_slice *fact, const struct pfw_slice *text)
{
	if (!text->escaped)
		*fact = *text;
}

/* What an index would know of this line. */
static void know_more(struct pfw_expr_facts *facts, const struct pfw_entry *entry)
{
	struct pfw_value value;

	know(&facts->name, &entry->name);
	know(&facts->cat, &entry->cat);
	facts->ph = entry->ph;
	facts->thread = true;
	facts->pid = entry->pid;
	facts->tid = entry->tid;
	if (!pfw_entry_arg(entry, "fname", &value))
		facts->no_fname = true;
	else if (value.type == PFW_VALUE_STRING)
		know(&facts->fname, &value.text);
}

/* What is known of a block that holds just this line. */
static struct pfw_expr_facts facts_of(const struct pfw_entry *entry)
{
	struct pfw_expr_facts facts = { .rank = 3, .times = true, .least_ns = 1 };
	int64_t end;

	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS)) {
		facts.times = entry->dur_ns == 0; /* who writes summaries knows no dur without ts */
		return facts;
	}
	facts.least_ns = facts.greatest_ns = entry->ts_ns;
	if (entry->dur_ns > 0 && !__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end))
		facts.greatest_ns = end;
	else if (entry->dur_ns != 0)
		facts.times = false;
	return facts;
}

static void try_line(const struct pfw_expr *expr, struct pfw_expr_state *state, const char *line,
		     size_t bytes)
{
	struct pfw_expr_facts facts;
	struct pfw_entry entry;
	bool result;

	pfw_entry_parse(&entry, line, bytes);
	if (entry.kind != PFW_ENTRY_EVENT)
		return;
	facts = facts_of(&entry);
	result = pfw_expr_test(state, &entry, facts.rank);
	assert(pfw_expr_test(state, &entry, facts.rank) == result);
	assert(!result || pfw_expr_may(expr, &facts));
	assert(!result || !pfw_expr_least_dur(expr) || entry.dur_ns >= pfw_expr_least_dur(expr));
	know_more(&facts, &entry);
	assert(!result || pfw_expr_may(expr, &facts));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *newline = memchr(data, '\n', size);
	size_t bytes = newline ? (size_t)(newline - (const char *)data) : size;
	char *text = malloc(bytes + 1), why[512];
	struct pfw_expr *expr = NULL;
	struct pfw_expr_state *state;
	int error;

	assert(text);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	memset(why, 'x', sizeof(why));
	error = pfw_expr_compile(&expr, text, why, sizeof(why));
	if (error) {
		assert(memchr(why, '\0', sizeof(why)) && why[0]);
		free(text);
		return 0;
	}
	state = pfw_expr_state_create(expr, NULL);
	assert(state);
	try_line(expr, state, ours, strlen(ours));
	if (newline)
		try_line(expr, state, newline + 1, size - bytes - 1);
	pfw_expr_state_free(state);
	pfw_expr_free(expr);
	free(text);
	return 0;
}

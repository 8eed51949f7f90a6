/* tools/top/tally.c - sums by name, in bounded memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "top/top.h"

static bool is_last(const struct top_tally *tally, int64_t of, const char *text, size_t bytes)
{
	const struct pfw_text_id *last;

	if (tally->last >= tally->names.count)
		return false;
	last = &tally->names.name[tally->last];
	return last->of == of && last->bytes == bytes && !memcmp(last->text, text, bytes);
}

int top_tally_add(struct top_tally *tally, int64_t of, const char *text, size_t bytes,
		  const struct top_sums *sums, int sign)
{
	int64_t number;

	if (is_last(tally, of, text, bytes)) {
		top_sums_add(&tally->sums[tally->last], sums, sign);
		return 0;
	}
	if (tally->names.count < TOP_NAMES_MAX) {
		number = pfw_text_ids_of(&tally->names, of, text, bytes);
		if (number < 0 || PFW_REACH(tally->sums, (size_t)number, tally->room))
			return -ENOMEM;
	} else {
		number = pfw_text_ids_find(&tally->names, of, text, bytes);
	}
	if (number >= 0)
		tally->last = (uint32_t)number;
	top_sums_add(number < 0 ? &tally->others : &tally->sums[number], sums, sign);
	return 0;
}

int top_tally_merge(struct top_tally *into, const struct top_tally *from, int sign)
{
	int error = 0;

	for (uint32_t i = 0; i < from->names.count && !error; i++) {
		const struct pfw_text_id *name = &from->names.name[i];

		error = top_tally_add(into, name->of, name->text, name->bytes, &from->sums[i],
				      sign);
	}
	top_sums_add(&into->others, &from->others, sign);
	return error;
}

struct top_sums top_tally_of(const struct top_tally *tally, const struct pfw_text_id *name)
{
	int64_t number = pfw_text_ids_find(&tally->names, name->of, name->text, name->bytes);

	return number < 0 ? (struct top_sums){ 0 } : tally->sums[number];
}

void top_tally_clear(struct top_tally *tally)
{
	if (tally->room)
		memset(tally->sums, 0, tally->room * sizeof(*tally->sums));
	pfw_text_ids_clear(&tally->names);
	tally->others = (struct top_sums){ 0 };
}

void top_tally_release(struct top_tally *tally)
{
	pfw_text_ids_release(&tally->names);
	free(tally->sums);
}

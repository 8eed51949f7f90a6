/* read/parts.c - parts of traces; see internal.h.
 *
 * A part is named by numbers of blocks, which hold for the same blocks only: the name has a hash of
 * their places, too, so that a trace that has grown is refused and not read twice or in part.
 */
#include "common/base/order.h"
#include "read/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/gzip/member.h"
#include "store/kit/hash.h"
#include "store/read/input.h"

bool pfw_read_range_parse(struct pfw_read_range *range, const char *text)
{
	int end = 0;

	return sscanf(text, "%" SCNu64 "-%" SCNu64 "/%" SCNx64 "%n", &range->from, &range->to,
		      &range->layout, &end) == 3 &&
	       end && !text[end] && range->from < range->to;
}

/* ---- numbers of blocks ---- */

int pfw_read_places_set(struct pfw_read_places *places, const struct pfw_traces *traces)
{
	uint64_t layout = traces->count;

	places->first = malloc((traces->count + 1) * sizeof(*places->first));
	if (!places->first)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_blocks *blocks = &traces->file[i].blocks;

		places->first[i] = places->blocks;
		/* A file whose blocks are found only while it is read is one. */
		places->blocks += blocks->layout == PFW_LAYOUT_STREAM ? 1 : blocks->count;
		layout = pfw_hash_mix(layout ^ blocks->file_bytes, 0x9e3779b97f4a7c15u);
		for (size_t j = 0; j < blocks->count && blocks->layout != PFW_LAYOUT_STREAM; j++)
			layout = pfw_hash_mix(layout ^ blocks->block[j].at, 0xd6e8feb86659fd93u);
	}
	places->layout = layout;
	return 0;
}

void pfw_read_places_free(struct pfw_read_places *places)
{
	free(places->first);
	places->first = NULL;
}

bool pfw_read_places_in(const struct pfw_read_places *places, const struct pfw_traces *traces,
			const struct pfw_read_range *range, size_t file,
			const struct pfw_block *block)
{
	size_t whole = pfw_ranks_whole(traces, file);
	const struct pfw_blocks *blocks = &traces->file[whole].blocks;
	uint64_t number = places->first[whole];

	if (blocks->layout != PFW_LAYOUT_STREAM)
		number += (uint64_t)(block - blocks->block);
	return number >= range->from && number < range->to;
}

bool pfw_read_places_last(const struct pfw_read_places *places, const struct pfw_read_range *range)
{
	return range->to >= places->blocks;
}

/* ---- dividing ---- */

struct dividing {
	const struct pfw_select *select;
	uint64_t most;
	pfw_read_each *each;
	void *user;
	uint64_t layout;
	uint64_t from,
		wanted; /* the part that is being made: its first block, and how many are wanted */
	int64_t least_ns, greatest_ns;
	bool timed, known; /* known: the times of all its blocks so far */
};

static void give(struct dividing *dividing, uint64_t to)
{
	char name[80];
	bool known = dividing->known && dividing->least_ns <= dividing->greatest_ns;

	snprintf(name, sizeof(name), "%" PRIu64 "-%" PRIu64 "/%016" PRIx64, dividing->from, to,
		 dividing->layout);
	dividing->each(dividing->user, name, known ? dividing->least_ns : INT64_MIN,
		       known ? dividing->greatest_ns : INT64_MAX);
	dividing->from = to;
	dividing->wanted = 0;
	dividing->least_ns = INT64_MAX;
	dividing->greatest_ns = INT64_MIN;
	dividing->known = dividing->timed;
}

static bool is_wanted(const struct dividing *dividing, const struct pfw_trace_file *file,
		      size_t number, const struct pfw_block *block)
{
	if (!file->ranks)
		return pfw_select_block(dividing->select, number, block);
	for (size_t i = 0; i < file->ranks->count; i++) {
		if (pfw_select_block(dividing->select, file->ranks->file[i], block))
			return true;
	}
	return false;
}

/* The greatest ts of a block whose member has a mark; else its greatest end, which is not less. */
static int64_t last_ns(const struct pfw_trace_file *file, int fd, const struct pfw_block *block)
{
	struct pfw_sorted_mark mark;
	struct pfw_link link;

	if (file->blocks.layout == PFW_LAYOUT_MEMBERS && fd >= 0 &&
	    pfw_chain_look(&link, fd, block->at) == 0 && !link.damaged &&
	    pfw_sorted_mark_read(link.header, link.header_bytes, &mark) == 0)
		return mark.greatest_ns;
	return block->greatest_ns;
}

static void add_block(struct dividing *dividing, const struct pfw_trace_file *file, int fd,
		      uint64_t number, const struct pfw_block *block)
{
	/* No cut between lines of one ts, so that the times of parts can be disjoint. */
	bool tied = block->summed && block->least_ns == dividing->greatest_ns &&
		    dividing->wanted < 2 * dividing->most;
	int64_t last = last_ns(file, fd, block);

	if (dividing->wanted >= dividing->most && !tied)
		give(dividing, number);
	dividing->wanted++;
	dividing->known = dividing->known && block->summed;
	if (!block->summed || block->least_ns > block->greatest_ns)
		return;
	PFW_LOWER(dividing->least_ns, block->least_ns);
	PFW_RAISE(dividing->greatest_ns, last);
}

/* A part of its own, because its length is not known. */
static void add_stream(struct dividing *dividing, uint64_t number)
{
	if (dividing->wanted)
		give(dividing, number);
	dividing->wanted = dividing->most;
	dividing->known = false;
}

void pfw_read_places_divide(const struct pfw_read_places *places, const struct pfw_traces *traces,
			    const struct pfw_select *select, bool timed, uint64_t most,
			    pfw_read_each *each, void *user)
{
	struct dividing dividing = { .select = select,
				     .most = most ? most : 1,
				     .each = each,
				     .user = user,
				     .layout = places->layout,
				     .least_ns = INT64_MAX,
				     .greatest_ns = INT64_MIN,
				     .timed = timed,
				     .known = timed };

	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];
		int fd;

		if (file->blocks.layout == PFW_LAYOUT_STREAM) {
			if (pfw_select_file(select, i))
				add_stream(&dividing, places->first[i]);
			continue;
		}
		fd = pfw_input_open_fd(file->path);
		for (size_t j = 0; j < file->blocks.count; j++) {
			if (is_wanted(&dividing, file, i, &file->blocks.block[j]))
				add_block(&dividing, file, fd, places->first[i] + j,
					  &file->blocks.block[j]);
		}
		if (fd >= 0)
			close(fd);
	}
	give(&dividing, places->blocks ? places->blocks : 1);
}

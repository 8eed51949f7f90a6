/* store/read/blocks.c - where the blocks of a trace are; see blocks.h. */
#include "store/read/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/format/gzip.h"
#include "store/gzip/member.h"
#include "store/kit/grow.h"
#include "store/read/input.h"
#include "store/read/scan.h"

/* Make room for one more block.  A file that has only headers must not take more memory than its
 * size: after the first ones, members must have 4 KiB on average; else -ENOENT: read it in
 * order. */
static int make_room(struct pfw_blocks *blocks, size_t *room)
{
	if (blocks->count < *room)
		return 0;
	if (blocks->count > 65536 + blocks->file_bytes / 4096)
		return -ENOENT;
	return PFW_ROOM(blocks->block, blocks->count, *room);
}

/* ---- plain text ---- */

static int find_text(struct pfw_blocks *blocks)
{
	blocks->layout = PFW_LAYOUT_TEXT;
	blocks->count = (size_t)((blocks->file_bytes + PFW_BLOCK_TEXT - 1) / PFW_BLOCK_TEXT);
	if (!blocks->count)
		return 0;
	blocks->block = calloc(blocks->count, sizeof(*blocks->block));
	if (!blocks->block)
		return -ENOMEM;
	for (size_t i = 0; i < blocks->count; i++) {
		blocks->block[i].at = (uint64_t)i * PFW_BLOCK_TEXT;
		blocks->block[i].bytes = PFW_BLOCK_TEXT;
	}
	blocks->block[blocks->count - 1].bytes -=
		(uint64_t)blocks->count * PFW_BLOCK_TEXT - blocks->file_bytes;
	return 0;
}

/* ---- members ---- */

static void set_summary(struct pfw_block *block, const struct pfw_gzip_summary *summary)
{
	block->summed = true;
	block->lines = summary->lines;
	block->least_ns = summary->least_ns > INT64_MAX ? INT64_MAX : (int64_t)summary->least_ns;
	block->greatest_ns = summary->greatest_ns > INT64_MAX ? INT64_MAX
							      : (int64_t)summary->greatest_ns;
}

/* Whether a member of that size can hold that much text, and may be read in one piece. */
static bool is_sane(uint64_t member_bytes, uint32_t text_bytes)
{
	return text_bytes <= PFW_GZIP_TEXT_MAX + PFW_SCAN_LINE_MAX &&
	       text_bytes <= member_bytes * PFW_DEFLATE_MOST;
}

static enum pfw_block_mark mark_of(const struct pfw_link *link)
{
	struct pfw_sorted_mark mark;

	if (link->damaged)
		return PFW_BLOCK_HEADS;
	if (pfw_sorted_mark_read(link->header, link->header_bytes, &mark))
		return PFW_BLOCK_UNMARKED;
	return mark.first ? PFW_BLOCK_HEADS : PFW_BLOCK_MARKED;
}

/* Follow the chain.  Return 0, -ENOENT if it does not reach the end of the file or a header is
 * impossible, or -errno. */
static int follow_members(struct pfw_blocks *blocks, int fd)
{
	struct pfw_link link;
	uint64_t at = 0;
	size_t room = 0;

	for (;;) {
		struct pfw_block block = { .at = at, .bytes = blocks->file_bytes - at }, *before;
		int error = pfw_chain_look(&link, fd, at);

		before = at ? &blocks->block[blocks->count - 1] : NULL;
		/* A block without a summary is cut, and its reader checks each byte. */
		if (before && before->summed && !is_sane(before->bytes, link.text_before))
			return -ENOENT;
		if (at == blocks->file_bytes)
			return 0;
		/* Only the last member can have a header that is cut. */
		if (error && (error != -EAGAIN || !at))
			return error == -EAGAIN ? -ENOENT : error;
		if (!error && link.summary.member_bytes <= block.bytes) {
			block.bytes = link.summary.member_bytes;
			/* Without a summary it is read in any case, and its reader says why. */
			if (!link.damaged)
				set_summary(&block, &link.summary);
		}
		block.mark = (uint8_t)(error ? PFW_BLOCK_UNMARKED : mark_of(&link));
		error = make_room(blocks, &room);
		if (error)
			return error;
		blocks->block[blocks->count++] = block;
		at += block.bytes;
	}
}

static int find_members(struct pfw_blocks *blocks, int fd)
{
	int error = follow_members(blocks, fd);

	if (!error)
		blocks->layout = PFW_LAYOUT_MEMBERS;
	if (error != -ENOENT)
		return error;
	free(blocks->block);
	blocks->block = NULL;
	blocks->count = 0;
	return 0;
}

/* ---- all files ---- */

int pfw_blocks_find(struct pfw_blocks *blocks, const char *path)
{
	struct stat st;
	int fd, error, gzip;

	*blocks = (struct pfw_blocks){ .layout = PFW_LAYOUT_STREAM };
	/* Never open a pipe twice: its writer would get SIGPIPE in between. */
	if (strcmp(path, "-") == 0 || (stat(path, &st) == 0 && S_ISFIFO(st.st_mode)))
		return 0;
	fd = pfw_input_open_fd(path);
	if (fd < 0)
		return fd;
	error = fstat(fd, &st) < 0 ? -errno : 0;
	if (!error && S_ISREG(st.st_mode)) {
		blocks->file_bytes = (uint64_t)st.st_size;
		gzip = pfw_is_gzip_fd(fd);
		error = gzip < 0 ? gzip : gzip ? find_members(blocks, fd) : find_text(blocks);
	}
	close(fd);
	if (error)
		pfw_blocks_free(blocks);
	return error;
}

void pfw_blocks_free(struct pfw_blocks *blocks)
{
	free(blocks->block);
	pfw_points_free(&blocks->points);
	*blocks = (struct pfw_blocks){ .layout = PFW_LAYOUT_STREAM };
}

/* ---- marks ---- */

/* A member whose header was changed: it belongs to a compacted file if it has a mark at all. */
static bool add_damaged(struct pfw_marks *marks, const struct pfw_link *link)
{
	struct pfw_sorted_mark mark;

	marks->damaged = true;
	marks->sorted = marks->one_pid = false;
	return pfw_sorted_mark_read(link->header, link->header_bytes, &mark) != -ENOENT;
}

/* Add one member.  False: it has no mark. */
static bool add(struct pfw_marks *marks, int fd, const struct pfw_block *block, int64_t *last_ns,
		uint64_t *pid)
{
	struct pfw_sorted_mark mark;
	struct pfw_link link;

	if (pfw_chain_look(&link, fd, block->at))
		return false;
	if (link.damaged)
		return add_damaged(marks, &link);
	if (!block->summed || pfw_sorted_mark_read(link.header, link.header_bytes, &mark))
		return false;
	if (mark.least_ns <= mark.greatest_ns) {
		marks->sorted = marks->sorted && mark.least_ns >= *last_ns;
		*last_ns = mark.greatest_ns;
	}
	marks->sorted = marks->sorted && (!mark.first || !marks->lines);
	if (!marks->lines)
		*pid = mark.pid;
	marks->one_pid = marks->one_pid && mark.pid && mark.pid == *pid;
	marks->cut = marks->cut || mark.cut;
	marks->lines += block->lines;
	marks->metadata += mark.metadata;
	marks->checksum += mark.checksum;
	return true;
}

int pfw_marks_read(struct pfw_marks *marks, const char *path, const struct pfw_blocks *blocks)
{
	int64_t last_ns = INT64_MIN;
	uint64_t pid = 0;
	int fd;

	*marks = (struct pfw_marks){ 0 };
	if (blocks->layout != PFW_LAYOUT_MEMBERS || !blocks->count)
		return 0;
	fd = pfw_input_open_fd(path);
	if (fd < 0)
		return fd;
	marks->marked = marks->sorted = marks->one_pid = true;
	for (size_t i = 0; i < blocks->count && marks->marked; i++)
		marks->marked = add(marks, fd, &blocks->block[i], &last_ns, &pid);
	close(fd);
	if (!marks->marked)
		marks->sorted = marks->one_pid = false;
	return 0;
}

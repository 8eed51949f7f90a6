/* recorder/spool/leave.c - takes the memory of a spool out of its file, and into a new one:
 * leave.h.
 *
 * The kernel replaces a mapping at once.  What a thread stores into it between the copy and that
 * moment is lost: a record that comes after the trace is complete.  No pointer and no size that a
 * probe reads changes there, and pfw_ring_skip() takes the positions out of use that it may know.
 */
#include "recorder/spool/leave.h"

#include <string.h>

#include "common/base/os.h"
#include "recorder/spool/file.h"

void pfw_spool_note(struct pfw_spool *spool, void *at, uint64_t offset, uint64_t bytes)
{
	struct pfw_spool_part *part = &spool->part[spool->parts];

	if (spool->parts < PFW_SPOOL_PARTS)
		*part = (struct pfw_spool_part){ at, offset, bytes };
	spool->parts++;
}

/* The bytes of a chunk that are not records. */
static uint64_t kept_bytes(const struct pfw_spool *spool, const struct pfw_chunk *chunk)
{
	return chunk->kind == PFW_CHUNK_RING ? PFW_PAGE_BYTES : pfw_spool_usable(spool, chunk);
}

static bool is_empty(const char *page, size_t bytes)
{
	return !page[0] && !memcmp(page, page + 1, bytes - 1);
}

/* A page for which there is no other place than where it is now. */
typedef int take_page(void *user, const char *page, uint64_t offset, size_t bytes);

static int take_pages(const char *at, uint64_t bytes, uint64_t offset, take_page *take, void *user)
{
	size_t page = pfw_os_page_bytes();
	int error = 0;

	for (uint64_t done = 0; done < bytes && !error; done += page)
		if (!is_empty(at + done, page))
			error = take(user, at + done, offset + done, page);
	return error;
}

/* All pages of a part that are kept, by their offsets in it. */
static int take_part(const struct pfw_spool *spool, const struct pfw_spool_part *part,
		     take_page *take, void *user)
{
	uint64_t end = atomic_load(&spool->header->end) - part->offset, at = 0;
	int error = 0;

	if (end > part->bytes)
		end = part->bytes;
	if (!part->offset) {
		/* Behind what is mapped of the file there is one page more: see map_header(). */
		end = end < spool->mapped ? end : spool->mapped;
		at = spool->header->header_bytes;
		error = take_pages(part->at, at, 0, take, user);
	}
	while (!error && at < end) {
		const struct pfw_chunk *chunk = (const void *)(part->at + at);

		error = chunk->bytes ? take_pages(part->at + at, kept_bytes(spool, chunk), at, take,
						  user)
				     : -EIO;
		at += chunk->bytes;
	}
	return error;
}

static int copy_page(void *copy, const char *page, uint64_t offset, size_t bytes)
{
	memcpy((char *)copy + offset, page, bytes);
	return 0;
}

static int leave_part(const struct pfw_spool *spool, const struct pfw_spool_part *part)
{
	void *copy = pfw_os_map(part->bytes);
	long moved;

	if (!copy || take_part(spool, part, copy_page, copy)) {
		pfw_os_munmap(copy, part->bytes);
		return -ENOMEM;
	}
	pfw_maps_remove(copy); /* its place is another's as soon as it has moved */
	moved = pfw_syscall6(SYS_mremap, (long)copy, (long)part->bytes, (long)part->bytes,
			     3 /* MREMAP_MAYMOVE | MREMAP_FIXED */, (long)part->at, 0);
	if (moved == (long)part->at)
		return 0;
	pfw_os_munmap(copy, part->bytes);
	return (int)moved;
}

void pfw_spool_leave(struct pfw_spool *spool)
{
	int error = spool->heap || spool->parts > PFW_SPOOL_PARTS ? -ENOSPC : 0;

	for (unsigned i = 0; i < spool->parts && !error; i++) {
		error = leave_part(spool, &spool->part[i]);
		/* Nothing can be written into the file any more after its memory has left it. */
		if (!error || i)
			spool->heap = true;
	}
	if (spool->heap)
		pfw_spool_unlink(spool);
}

struct writing {
	int fd;
	uint64_t offset;
};

static int write_page(void *user, const char *page, uint64_t offset, size_t bytes)
{
	const struct writing *writing = user;

	return pfw_os_pwrite(writing->fd, page, bytes, writing->offset + offset) == (ssize_t)bytes
		       ? 0
		       : -EIO;
}

static int map_part(const struct pfw_spool_part *part, int fd)
{
	long at = pfw_syscall6(SYS_mmap, (long)part->at, (long)part->bytes, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, fd, (long)part->offset);

	return at == (long)part->at ? 0 : (int)at;
}

int pfw_spool_return(struct pfw_spool *spool)
{
	uint64_t bytes = spool->mapped, end = atomic_load(&spool->header->end);
	int fd, error = 0;

	if (!spool->heap || !spool->path[0] || !spool->parts || spool->parts > PFW_SPOOL_PARTS)
		return spool->heap ? -ENOENT : 0;
	fd = pfw_spool_remake(spool, end > bytes ? end : bytes);
	if (fd < 0)
		return fd;
	for (unsigned i = 0; i < spool->parts && !error; i++) {
		struct writing writing = { fd, spool->part[i].offset };

		error = take_part(spool, &spool->part[i], write_page, &writing);
	}
	for (unsigned i = 0; i < spool->parts && !error; i++)
		error = map_part(&spool->part[i], fd);
	if (!error)
		error = pfw_spool_name(spool, fd);
	spool->heap = error;
	spool->made = spool->mapped;
	pfw_os_close(fd);
	return error;
}

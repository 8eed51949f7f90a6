/* recorder/spool/file.c - make the spool of a process, append chunks to it, and find others. */
#include "recorder/spool/file.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "common/format/clock.h"
#include "recorder/guest/locked.h"
#include "recorder/spool/leave.h"

#define SHM_DIR "/dev/shm"
/* A process takes at most this share of what is free: torch's workers die of SIGBUS once 60 of a
 * container's 64 MiB of /dev/shm are used. */
#define SHM_SHARE 16u
/* The minimum of a process: header, templates, strings, two rings. */
#define LEAST_BYTES (512u * 1024u)

void pfw_spool_dirs_find(struct pfw_spool_dirs *dirs, const char *spool_dir, const char *tmpdir,
			 const char *trace_path)
{
	const char *slash = trace_path ? strrchr(trace_path, '/') : NULL;
	unsigned n = 0;

	memset(dirs, 0, sizeof(*dirs));
	if (spool_dir && *spool_dir) {
		dirs->dir[n] = spool_dir;
		return;
	}
	dirs->dir[n++] = SHM_DIR;
	if (tmpdir && *tmpdir == '/')
		dirs->dir[n++] = tmpdir;
	if (slash && (size_t)(slash - trace_path) < sizeof(dirs->trace_dir)) {
		memcpy(dirs->trace_dir, trace_path, (size_t)(slash - trace_path));
		dirs->dir[n] = slash == trace_path ? "/" : dirs->trace_dir;
	}
}

static void add_number(struct pfw_text *text, const char *before, uint64_t value)
{
	pfw_text_add(text, before);
	pfw_text_add_u64(text, value, 1);
}

int pfw_spool_path(char *out, size_t size, const char *dir, uint32_t uid, int32_t pid,
		   uint64_t start_time)
{
	struct pfw_text text;

	pfw_text_init(&text, out, size - 8); /* room for a number after it */
	pfw_text_add(&text, dir);
	add_number(&text, "/" PFW_SPOOL_PREFIX, uid);
	add_number(&text, "-", (uint64_t)pid);
	add_number(&text, "-", start_time);
	pfw_text_add(&text, PFW_SPOOL_SUFFIX);
	return text.cut ? -ENAMETOOLONG : 0;
}

/* How large a spool on the file system of fd may become; 0 = too little space.  `asked`: bytes that
 * the user has asked for, which may be up to half of what is free. */
static uint64_t limit_for(int fd, const char *dir, uint64_t asked)
{
	struct statfs fs;
	uint64_t free_bytes;

	if (pfw_syscall6(SYS_fstatfs, fd, (long)&fs, 0, 0, 0, 0) < 0)
		return 0;
	free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	if (strcmp(dir, SHM_DIR) != 0)
		return free_bytes < LEAST_BYTES ? 0 : free_bytes;
	if (asked > free_bytes / 2)
		asked = free_bytes / 2;
	free_bytes /= SHM_SHARE;
	if (free_bytes < asked)
		free_bytes = asked;
	return free_bytes < LEAST_BYTES ? 0 : free_bytes;
}

/* Beyond RLIMIT_FSIZE the kernel would send SIGXFSZ. */
static bool size_allowed(uint64_t bytes)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	pfw_syscall6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
	return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

/* Open a spool and read its header; -1 = none.  All users may write to /dev/shm: a file of another
 * user is not a spool of ours. */
static int open_header(const char *path, struct pfw_spool_header *header, int access)
{
	int fd = pfw_os_open(path, access | O_NOFOLLOW | O_NONBLOCK, 0);
	ssize_t got = 0;
	struct stat st;

	if (fd < 0)
		return -1;
	if (!pfw_os_fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    st.st_uid == (uid_t)pfw_syscall6(SYS_geteuid, 0, 0, 0, 0, 0, 0))
		got = pfw_os_read(fd, header, sizeof(*header));
	if (got == (ssize_t)sizeof(*header) && header->magic == PFW_SPOOL_MAGIC &&
	    header->version == PFW_SPOOL_VERSION)
		return fd;
	pfw_os_close(fd);
	return -1;
}

static bool read_header(const char *path, struct pfw_spool_header *header)
{
	int fd = open_header(path, header, O_RDONLY);

	if (fd >= 0)
		pfw_os_close(fd);
	return fd >= 0;
}

#define NUMBERS_MAX 100u

/* PATH.1, PATH.2 … */
static void number_path(char name[PFW_SPOOL_PATH_MAX + 24], const char *path, unsigned n)
{
	struct pfw_text text;

	pfw_text_init(&text, name, PFW_SPOOL_PATH_MAX + 24);
	pfw_text_add(&text, path);
	add_number(&text, ".", n);
}

static int set_aside(const char *path)
{
	char name[PFW_SPOOL_PATH_MAX + 24];
	int error = -EEXIST;

	for (unsigned n = 1; n < NUMBERS_MAX && error == -EEXIST; n++) {
		number_path(name, path, n);
		error = pfw_os_rename_noreplace(path, name);
	}
	return error;
}

/* The inode of our pid namespace; 0 = unknown. */
static uint64_t pid_namespace(void)
{
	struct stat st;

	if (pfw_syscall6(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/ns/pid", (long)&st, 0, 0, 0))
		return 0;
	return st.st_ino;
}

/* Create the file (fd -1), or link fd to the path: a descriptor or 0, or -errno. */
static int try_name(int fd, const char *path)
{
	struct pfw_text text;
	char file[32];
	int error;

	if (fd < 0)
		return pfw_os_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	/* AT_EMPTY_PATH: root may, and since Linux 6.10 the creator of the file.  Preferred, since
	 * a process that has looked up its own /proc entries takes longer to exit. */
	error = pfw_os_link(fd, "", path, AT_EMPTY_PATH);
	if (!error || error == -EEXIST)
		return error;
	pfw_text_init(&text, file, sizeof(file));
	add_number(&text, "/proc/self/fd/", (uint64_t)fd);
	return pfw_os_link(AT_FDCWD, file, path, AT_SYMLINK_FOLLOW);
}

/* The name belongs to a process of another pid namespace with our pid and start time. */
static int name_beside(int fd, char path[PFW_SPOOL_PATH_MAX])
{
	char name[PFW_SPOOL_PATH_MAX + 24];
	int result = -EEXIST;

	for (unsigned n = 1; n < NUMBERS_MAX && result == -EEXIST; n++) {
		number_path(name, path, n);
		if (strlen(name) >= PFW_SPOOL_PATH_MAX)
			return -ENAMETOOLONG;
		result = try_name(fd, name);
	}
	if (result >= 0)
		memcpy(path, name, strlen(name) + 1);
	return result;
}

/*
 * try_name(), unless a spool with the name exists: that one is of this process before an exec.  If
 * it is done or empty, remove it; if the exec came by a raw system call and left events in it, keep
 * it under another name for `pfw repair`.
 */
static int take_name(int fd, char path[PFW_SPOOL_PATH_MAX])
{
	struct pfw_spool_header old;
	int result = try_name(fd, path);

	if (result != -EEXIST || !read_header(path, &old))
		return result;
	if (old.pid_namespace != pid_namespace())
		return name_beside(fd, path);
	if (atomic_load(&old.state) == PFW_SPOOL_DONE || atomic_load(&old.end) == old.header_bytes)
		result = pfw_os_unlink(path);
	else
		result = set_aside(path);
	return result ? result : try_name(fd, path);
}

static void fill_header(const struct pfw_spool_owner *owner, struct pfw_spool_header *header)
{
	header->version = PFW_SPOOL_VERSION;
	header->header_bytes = (uint32_t)pfw_os_whole_pages(PFW_SPOOL_HEADER_BYTES);
	header->pid = owner->pid;
	header->uid = owner->uid;
	header->start_time = owner->start_time;
	header->pid_namespace = owner->pid_namespace ? owner->pid_namespace : pid_namespace();
	atomic_store(&header->end, header->header_bytes);
	if (owner->fill)
		owner->fill(header, owner->user);
	/* Last: a reader that sees the magic sees all else. */
	__atomic_store_n(&header->magic, PFW_SPOOL_MAGIC, __ATOMIC_RELEASE);
}

/* Allocated, not sparse: touching a hole on a full tmpfs would be SIGBUS in the program. */
static int allocate(struct pfw_spool *spool, int fd, uint64_t made, uint64_t size)
{
	uint64_t file_bytes = size + pfw_os_page_bytes();
	int error;

	if (size > spool->limit || !size_allowed(file_bytes))
		return -ENOSPC;
	error = pfw_os_fallocate(fd, 0, made);
	if (!error)
		error = pfw_os_ftruncate(fd, file_bytes);
	spool->made = made;
	spool->mapped = size;
	return error;
}

/*
 * Map and fill the header of an empty file, with room for the first chunks.
 *
 * One page more is mapped, and never touched: Valgrind 3.19 dies when it joins two adjacent
 * mappings of one file under two names, and this page keeps them apart.  The file has the page, too,
 * since memcheck reads it when it looks for leaks.
 */
static int map_header(struct pfw_spool *spool, int fd, const struct pfw_spool_owner *owner)
{
	uint64_t bytes = pfw_os_whole_pages(PFW_SPOOL_HEADER_BYTES);
	int error = allocate(spool, fd, bytes + owner->made_bytes, bytes + owner->mapped_bytes);
	void *mapped;

	if (error && owner->mapped_bytes)
		error = allocate(spool, fd, bytes, bytes);
	if (error)
		return error;
	mapped = pfw_os_mmap(spool->mapped + pfw_os_page_bytes(), PROT_READ | PROT_WRITE,
			     MAP_SHARED | (spool->mapped == spool->made ? MAP_POPULATE : 0), fd, 0);
	if (!mapped)
		return -ENOMEM;
	pfw_unlock(mapped, spool->mapped + pfw_os_page_bytes());
	if (spool->mapped > spool->made)
		pfw_os_madvise(
			mapped, spool->made,
			23 /* MADV_POPULATE_WRITE; older kernels fault at the first touch */);
	fill_header(owner, mapped);
	spool->header = mapped;
	if (spool->leaves)
		pfw_spool_note(spool, mapped, 0, spool->mapped + pfw_os_page_bytes());
	return 0;
}

/*
 * `unnamed`: O_TMPFILE first, then a name once the header is whole.  A process killed before that
 * leaves no file, and nobody reads half a header.  Some file systems refuse it.
 */
static int make_in(struct pfw_spool *spool, const char *dir, const struct pfw_spool_owner *owner,
		   bool unnamed)
{
	int error = pfw_spool_path(spool->path, sizeof(spool->path), dir, owner->uid, owner->pid,
				   owner->start_time);
	int fd;

	if (error)
		return error;
	fd = unnamed ? pfw_os_open(dir, O_RDWR | O_TMPFILE, 0600) : take_name(-1, spool->path);
	if (fd < 0)
		return fd;
	spool->limit = limit_for(fd, dir, owner->asked_bytes);
	error = map_header(spool, fd, owner);
	if (!error && unnamed)
		error = take_name(fd, spool->path);
	else if (error && !unnamed)
		pfw_os_unlink(spool->path);
	pfw_os_close(fd);
	if (error && spool->header) {
		pfw_os_munmap(spool->header, spool->mapped + pfw_os_page_bytes());
		spool->header = NULL;
		spool->parts = 0;
	}
	return error;
}

int pfw_spool_create(struct pfw_spool *spool, const struct pfw_spool_dirs *dirs,
		     const struct pfw_spool_owner *owner)
{
	memset(spool, 0, sizeof(*spool));
	spool->leaves = owner->leaves;
	/* A spool without room for a ring records nothing; memory of our own has room. */
	for (unsigned i = 0;
	     size_allowed(LEAST_BYTES) && i < PFW_ARRAY_LEN(dirs->dir) && dirs->dir[i]; i++)
		if (!make_in(spool, dirs->dir[i], owner, true) ||
		    !make_in(spool, dirs->dir[i], owner, false))
			return 0;
	spool->heap = true;
	spool->path[0] = '\0';
	spool->limit = UINT64_MAX;
	spool->made = spool->mapped = 0;
	spool->header = pfw_os_map(PFW_SPOOL_HEADER_BYTES);
	if (!spool->header)
		return -ENOMEM;
	fill_header(owner, spool->header);
	return 0;
}

int pfw_spool_remake(struct pfw_spool *spool, uint64_t bytes)
{
	char *slash = strrchr(spool->path, '/');
	int fd, error;

	*slash = '\0';
	fd = pfw_os_open(spool->path, O_RDWR | O_TMPFILE, 0600);
	*slash = '/';
	if (fd < 0)
		fd = take_name(-1, spool->path);
	error = fd < 0 ? fd : pfw_os_fallocate(fd, 0, bytes);
	if (error && fd >= 0)
		pfw_os_close(fd);
	return error ?: fd;
}

int pfw_spool_name(struct pfw_spool *spool, int fd)
{
	struct stat st;

	return pfw_os_fstat(fd, &st) || st.st_nlink ? 0 : take_name(fd, spool->path);
}

int pfw_spool_open(const struct pfw_spool *spool)
{
	return spool->heap ? -1 : pfw_os_open(spool->path, O_RDWR | O_NOFOLLOW, 0);
}

bool pfw_spool_has_place(const struct pfw_spool *spool, enum pfw_chunk_kind kind, uint64_t bytes)
{
	uint64_t at = atomic_load(&spool->header->end);

	bytes = pfw_os_whole_pages(bytes);
	if (kind == PFW_CHUNK_STRINGS) /* its first page is enough */
		return at + pfw_os_page_bytes() <= spool->made && at + bytes <= spool->mapped;
	return at + bytes <= spool->made;
}

/* How long to believe that there is no space. */
#define FULL_NS 100000000ull

static bool is_full(const struct pfw_spool *spool, uint64_t bytes)
{
	return bytes >= spool->full_bytes && spool->full_until_ns &&
	       pfw_clock_ns(CLOCK_MONOTONIC) < spool->full_until_ns;
}

bool pfw_spool_needs_file(const struct pfw_spool *spool, enum pfw_chunk_kind kind, uint64_t bytes)
{
	uint64_t at = atomic_load(&spool->header->end);

	bytes = pfw_os_whole_pages(bytes);
	return !spool->heap && at + bytes <= spool->limit &&
	       !pfw_spool_has_place(spool, kind, bytes) && !is_full(spool, bytes);
}

uint64_t pfw_spool_usable(const struct pfw_spool *spool, const struct pfw_chunk *chunk)
{
	uint64_t at = (uintptr_t)chunk - (uintptr_t)spool->header;

	return at < spool->made && at + chunk->bytes > spool->made ? spool->made - at
								   : chunk->bytes;
}

int pfw_spool_make_rest(struct pfw_spool *spool, int fd)
{
	int error = pfw_os_fallocate(fd, spool->made, spool->mapped - spool->made);

	if (!error)
		spool->made = spool->mapped;
	return error;
}

static struct pfw_chunk *map_chunk(struct pfw_spool *spool, int fd, enum pfw_chunk_kind kind,
				   uint64_t bytes)
{
	uint64_t at = atomic_load(&spool->header->end);
	int error;

	if (spool->heap)
		return pfw_unlock(pfw_os_mmap(bytes, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0),
				  bytes);
	error = size_allowed(at + bytes) ? pfw_os_fallocate(fd, at, bytes) : -ENOSPC;
	if (error == -ENOSPC || error == -EDQUOT) {
		spool->full_bytes = bytes;
		spool->full_until_ns = pfw_clock_ns(CLOCK_MONOTONIC) + FULL_NS;
	}
	if (error)
		return NULL;
	/* Prefault rings, whose pages would else fault in probes; strings fill slowly. */
	return pfw_unlock(pfw_os_mmap(bytes, PROT_READ | PROT_WRITE,
				      MAP_SHARED | (kind == PFW_CHUNK_STRINGS ? 0 : MAP_POPULATE),
				      fd, at),
			  bytes);
}

void *pfw_spool_append(struct pfw_spool *spool, int fd, enum pfw_chunk_kind kind, uint32_t index,
		       uint64_t bytes)
{
	uint64_t at = atomic_load(&spool->header->end);
	struct pfw_chunk *chunk;

	bytes = pfw_os_whole_pages(bytes);
	if (at + bytes > spool->limit)
		return NULL;
	if (pfw_spool_has_place(spool, kind, bytes))
		chunk = (struct pfw_chunk *)(void *)((char *)spool->header + at);
	else
		chunk = is_full(spool, bytes) ? NULL : map_chunk(spool, fd, kind, bytes);
	if (!chunk)
		return NULL;
	if (spool->leaves && at >= spool->mapped)
		pfw_spool_note(spool, chunk, at, bytes);
	chunk->kind = (uint32_t)kind;
	chunk->index = index;
	chunk->bytes = bytes;
	atomic_store_explicit(&spool->header->end, at + bytes, memory_order_release);
	return chunk;
}

void pfw_spool_unlink(const struct pfw_spool *spool)
{
	if (spool->path[0])
		pfw_os_unlink(spool->path);
}

bool pfw_spool_peek(struct pfw_spool_header *header, const struct pfw_spool_dirs *dirs,
		    uint32_t uid, int32_t pid, uint64_t start_time)
{
	char path[PFW_SPOOL_PATH_MAX];

	for (unsigned i = 0; i < PFW_ARRAY_LEN(dirs->dir) && dirs->dir[i]; i++)
		if (!pfw_spool_path(path, sizeof(path), dirs->dir[i], uid, pid, start_time) &&
		    read_header(path, header) && header->pid == pid)
			return true;
	return false;
}

/* ---- spools of other processes ---- */

#define LOOK_BYTES 4096u
#define LOOKS_MAX 4u /* about 500 names: to look up a few by name costs less than to list more */

static void take_name_of(struct pfw_spool_owners *owners, const char *name, const char *prefix)
{
	size_t bytes = strlen(prefix);
	uint64_t pid;

	if (strncmp(name, prefix, bytes) != 0 || !pfw_text_read_u64(name + bytes, &pid))
		return;
	if (owners->count < PFW_ARRAY_LEN(owners->pid))
		owners->pid[owners->count++] = (int32_t)pid;
	else
		owners->any = true;
}

static void list_dir(struct pfw_spool_owners *owners, const char *dir, const char *prefix)
{
	char names[LOOK_BYTES];
	int fd = pfw_os_open(dir, O_RDONLY | O_DIRECTORY, 0);
	long bytes = fd < 0 ? fd : 1;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return;
	for (unsigned looks = 0; looks < LOOKS_MAX && bytes > 0; looks++) {
		bytes = pfw_syscall6(SYS_getdents64, fd, (long)names, sizeof(names), 0, 0, 0);
		/* struct linux_dirent64: inode, offset, then length at 16 and the name at 19 */
		for (long at = 0; at < bytes;) {
			uint16_t length;

			memcpy(&length, names + at + 16, sizeof(length));
			take_name_of(owners, names + at + 19, prefix);
			at += length;
		}
	}
	if (bytes)
		owners->any = true;
	if (fd >= 0)
		pfw_os_close(fd);
}

void pfw_spool_owners_find(struct pfw_spool_owners *owners, const struct pfw_spool_dirs *dirs,
			   uint32_t uid)
{
	struct pfw_text text;
	char prefix[32];

	owners->count = 0;
	owners->any = false;
	pfw_text_init(&text, prefix, sizeof(prefix));
	add_number(&text, PFW_SPOOL_PREFIX, uid);
	pfw_text_add(&text, "-");
	for (unsigned i = 0; i < PFW_ARRAY_LEN(dirs->dir) && dirs->dir[i] && !owners->any; i++)
		list_dir(owners, dirs->dir[i], prefix);
}

bool pfw_spool_owners_hold(const struct pfw_spool_owners *owners, int32_t pid)
{
	bool held = owners->any;

	for (unsigned i = 0; i < owners->count && !held; i++)
		held = owners->pid[i] == pid;
	return held;
}

struct pfw_spool_header *pfw_spool_watch(const struct pfw_spool_dirs *dirs, uint32_t uid,
					 int32_t pid, uint64_t start_time, bool writes)
{
	char path[PFW_SPOOL_PATH_MAX];
	struct pfw_spool_header header;
	void *page = NULL;

	for (unsigned i = 0; i < PFW_ARRAY_LEN(dirs->dir) && dirs->dir[i] && !page; i++) {
		int fd = pfw_spool_path(path, sizeof(path), dirs->dir[i], uid, pid, start_time)
				 ? -1
				 : open_header(path, &header, writes ? O_RDWR : O_RDONLY);

		if (fd < 0)
			continue;
		if (header.pid == pid)
			page = pfw_os_mmap(PFW_SPOOL_HEADER_BYTES,
					   PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd,
					   0);
		pfw_os_close(fd);
	}
	return page;
}

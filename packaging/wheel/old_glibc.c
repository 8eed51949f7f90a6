/* old_glibc.c - what code that was compiled for glibc 2.33 or later calls, by what 2.28 has.  With 64-bit
 * off_t both kinds of struct stat are one. */
struct stat;

int __xstat(int version, const char *path, struct stat *status);
int __lxstat(int version, const char *path, struct stat *status);
int __fxstat(int version, int fd, struct stat *status);
int __fxstatat(int version, int fd, const char *path, struct stat *status, int flags);

#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

#define ALSO(name) __attribute__((alias(#name)))

int stat(const char *path, struct stat *status)
{
	return __xstat(STAT_VERSION, path, status);
}

int lstat(const char *path, struct stat *status)
{
	return __lxstat(STAT_VERSION, path, status);
}

int fstat(int fd, struct stat *status)
{
	return __fxstat(STAT_VERSION, fd, status);
}

int fstatat(int fd, const char *path, struct stat *status, int flags)
{
	return __fxstatat(STAT_VERSION, fd, path, status, flags);
}

int stat64(const char *path, struct stat *status) ALSO(stat);
int lstat64(const char *path, struct stat *status) ALSO(lstat);
int fstat64(int fd, struct stat *status) ALSO(fstat);

/* follow.h - programs that are started without our variables: brought along (PFW_FOLLOW), or noted. */
#ifndef PFW_FOLLOW_H
#define PFW_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/* `environ` is what this process was started with, and stays; `template` that of records of untraced
 * children.  Thread: init. */
void pfw_follow_init(const struct pfw_config *config, char *const *environ, uint16_t template);

/* One start of a program. */
struct pfw_follow {
	char *const *envp; /* for the program: as it was given, or with our variables */
	const char *why;   /* it will not be traced, and why; NULL = it will */
	bool made;	   /* envp is ours */
};

/* Look at the environment that the program will have.  Where nobody can replace it, as in system(),
 * `fixed`.  Keeps errno.  Thread: app.  Signal: safe. */
void pfw_follow_begin(struct pfw_follow *follow, char *const *envp, bool fixed);

/* It was started (or is about to be, in this very process): note that it is untraced.  pid 0: not
 * known.  Keeps errno.  Thread: app.  Signal: safe. */
void pfw_follow_started(const struct pfw_follow *follow, int32_t pid);

/* Free what begin() made.  Keeps errno. */
void pfw_follow_end(struct pfw_follow *follow);

/* A vfork child may touch nothing: it leaves what is to be noted to its parent, until exec fails. */
void pfw_follow_leave(const struct pfw_follow *follow);
void pfw_follow_take_back(void);

/* In the parent: the child, if there was one, has run its program or has ended. */
void pfw_follow_vforked(int32_t pid);

#endif

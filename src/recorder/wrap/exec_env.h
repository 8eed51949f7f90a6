/* recorder/wrap/exec_env.h - our variables in the environment of a program that is about to start.
 *
 * If they are missing, they are added (PFW_FOLLOW) or the program is recorded as untraced.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/* `environ` is this process's environment at its start and must last; `template` is that of records
 * of untraced children.  Thread: init. */
void pfw_exec_env_init(const struct pfw_config *config, char *const *environ, uint16_t template);

/* One start of a program. */
struct pfw_exec_env {
	char *const *envp; /* the new program's environment, possibly with our variables added */
	const char *why;   /* why the program will not be traced; NULL = it will */
	bool traced;	   /* it will be, and removes this process's spool */
	bool made;	   /* envp was allocated here */
};

/* How the call finds its program; PFW_EXEC_SHELL: it runs the shell, and its environment cannot be
 * replaced, as in system(). */
enum pfw_exec_kind { PFW_EXEC_PATH, PFW_EXEC_SEARCH, PFW_EXEC_SHELL };

/* Look at the new program (NULL: not known which) and its environment.  Keeps errno.  Thread: app.
 * Signal: safe. */
void pfw_exec_env_begin(struct pfw_exec_env *follow, const char *program, enum pfw_exec_kind kind,
			char *const *envp);

/* The program has started, or is about to in this process: record it if it is untraced. pid 0:
 * unknown.  Keeps errno.  Thread: app.  Signal: safe. */
void pfw_exec_env_started(const struct pfw_exec_env *follow, int32_t pid);

/* Free what begin() allocated.  Keeps errno. */
void pfw_exec_env_end(struct pfw_exec_env *follow);

/* A vfork child must change nothing: leave the note to the parent; take it back if exec fails. */
void pfw_exec_env_leave(const struct pfw_exec_env *follow);
void pfw_exec_env_take_back(void);

/* In the parent: the vfork child, if there was one, has run its program or has ended. */
void pfw_exec_env_vforked(int32_t pid);

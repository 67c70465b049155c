// Answers each connection with the first bytes of a page that is wiped in a copy, and of one that
// is not.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif

int main(void) {
    char *p = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || madvise(p, 2 * 4096, MADV_WIPEONFORK) || madvise(p + 4096, 4096, MADV_KEEPONFORK)) {
        perror("madvise");
        return 1;
    }
    strcpy(p, "wiped"), strcpy(p + 4096, "kept"), strcpy(p + 8192, "plain");
    if (madvise(mmap(0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 4096, MADV_WIPEONFORK) == 0) {
        puts("shared memory would be wiped");
        return 1;
    }
    pid_t child = fork();
    if (child == 0)
        _exit(*p || strcmp(p + 4096, "kept") || strcmp(p + 8192, "plain"));
    int status = 1;
    waitpid(child, &status, 0);
    if (status || strcmp(p, "wiped")) {
        printf("a child has \"%s\", status %d\n", p, status);
        return 1;
    }
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7305), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, 8) || !fopen("wipe.ready", "w")) {
        perror("listen");
        return 1;
    }
    for (;;) {
        char line[100];
        int c = accept(s, 0, 0);
        if (read(c, line, sizeof line) < 0)
            return 1;
        dprintf(c, "wiped %s\nkept %s\nplain %s\n", *p ? p : "0", p + 4096, p + 8192);
        close(c);
    }
}

/* The same header in C: a device is opened, and a wrong name is refused with a reason. */

#include <rocmforge/attention_c.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char error[256] = "";
  rocmforge_context* context = rocmforge_open("cpu", NULL, error, sizeof error);
  if (context == NULL) {
    printf("%s\n", error);
    return 1;
  }
  printf("opened %s\n", rocmforge_device_name(context));
  rocmforge_close(context);
  if (rocmforge_open("no-such-device", NULL, error, sizeof error) != NULL || strlen(error) == 0) {
    printf("a device that does not exist was opened\n");
    return 1;
  }
  return 0;
}

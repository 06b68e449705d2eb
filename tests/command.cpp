// main() of a command beside the tests. What it does is compiled with the library that it shares with a test, which takes half the time.
int TOROID_RUN(int argc, char** argv);

int main(int argc, char** argv) { return TOROID_RUN(argc, argv); }

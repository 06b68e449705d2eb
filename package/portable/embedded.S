/* What a portable toroid brings along, as embed.sh has gathered it: src/support/files/embedded_files.h. */
    .section .rodata.toroid_embedded, "a"
    .balign 64
    .globl toroid_embedded_archive, toroid_embedded_archive_end, toroid_embedded_list, toroid_embedded_list_end
    .hidden toroid_embedded_archive, toroid_embedded_archive_end, toroid_embedded_list, toroid_embedded_list_end
toroid_embedded_archive:
    .incbin "files.tar.gz"
toroid_embedded_archive_end:
toroid_embedded_list:
    .incbin "list"
toroid_embedded_list_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits

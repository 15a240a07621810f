import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Stream;

/**
 * Does a jar, compiled against one Spark, link with another? {@code java tools/LinkCheck.java JAR DIR} reads every class of JAR
 * and reports
 * <ul>
 *   <li>each class, field or method it refers to that neither JAR, nor a jar in DIR, nor the JDK has: a NoClassDefFoundError,
 *       NoSuchFieldError or NoSuchMethodError waiting for its first call,
 *   <li>each inherited abstract method that a concrete class of JAR does not implement: an AbstractMethodError likewise.
 * </ul>
 * Exit code 0 if there is nothing to report, 1 if there is, 2 for bad arguments. References to java.* are not checked: the
 * compiler's --release option sees to them.
 */
public final class LinkCheck {
  /** A field or method as a class declares it or refers to it. */
  record Member(boolean field, String name, String descriptor) {
    @Override
    public String toString() {
      return name + (field ? ": " : "") + descriptor;
    }
  }

  /** A reference to a member of a class. */
  record Reference(String owner, Member member) {}

  /** What linking needs to know of a class. Names are binary with slashes, as in class files. */
  record ClassFile(
      String name,
      boolean concrete,
      String superclass,
      List<String> interfaces,
      Set<Member> members,
      Set<Member> abstractMethods,
      Set<String> classes,
      Set<Reference> references) {}

  private final ClassLoader classPath;
  private final Map<String, Optional<ClassFile>> known = new HashMap<>();
  private final Set<String> problems = new TreeSet<>();
  private int checked = 0;

  private LinkCheck(ClassLoader classPath) {
    this.classPath = classPath;
  }

  public static void main(String[] args) throws IOException {
    if (args.length != 2 || !Files.isRegularFile(Path.of(args[0])) || !Files.isDirectory(Path.of(args[1]))) {
      System.err.println("usage: java tools/LinkCheck.java JAR DIR   (DIR holds a Spark distribution's jars)");
      System.exit(2);
    }
    Path jar = Path.of(args[0]);
    LinkCheck check = new LinkCheck(new URLClassLoader(classPath(jar, Path.of(args[1])), ClassLoader.getPlatformClassLoader()));
    try (JarFile file = new JarFile(jar.toFile())) {
      for (JarEntry entry : (Iterable<JarEntry>) file.stream()::iterator)
        if (entry.getName().endsWith(".class"))
          check.verify(ClassFileReader.read(file.getInputStream(entry).readAllBytes()));
    }
    System.out.println(
        jar.getFileName() + " against " + args[1] + ": " + check.checked + " references, " + check.problems.size() + " problems");
    check.problems.forEach(problem -> System.out.println("  " + problem));
    System.exit(check.problems.isEmpty() ? 0 : 1);
  }

  private static URL[] classPath(Path jar, Path dir) throws IOException {
    List<URL> urls = new ArrayList<>(List.of(jar.toUri().toURL()));
    try (Stream<Path> files = Files.list(dir)) {
      for (Path file : (Iterable<Path>) files.filter(f -> f.toString().endsWith(".jar"))::iterator) urls.add(file.toUri().toURL());
    }
    if (urls.size() == 1) {
      System.err.println(dir + ": has no jar; it should be the jars folder of a Spark distribution");
      System.exit(2);
    }
    return urls.toArray(new URL[0]);
  }

  private void verify(ClassFile file) throws IOException {
    for (String name : file.classes()) {
      checked++;
      if (!ignored(name) && find(name).isEmpty()) problems.add("class " + name + "   used by " + file.name());
    }
    for (Reference reference : file.references()) {
      checked++;
      // A missing owner is in the list of classes already.
      if (ignored(reference.owner()) || find(reference.owner()).isEmpty()) continue;
      if (!resolves(reference)) problems.add(reference.owner() + "." + reference.member() + "   used by " + file.name());
    }
    if (file.concrete())
      for (Member method : unimplemented(file)) problems.add(file.name() + " does not implement " + method);
  }

  private static boolean ignored(String name) {
    return name.startsWith("java/");
  }

  private Optional<ClassFile> find(String name) throws IOException {
    Optional<ClassFile> seen = known.get(name);
    if (seen != null) return seen;
    try (InputStream in = classPath.getResourceAsStream(name + ".class")) {
      Optional<ClassFile> found = in == null ? Optional.empty() : Optional.of(ClassFileReader.read(in.readAllBytes()));
      known.put(name, found);
      return found;
    }
  }

  /** The class and everything it inherits from, nearest superclasses first, then interfaces. */
  private List<ClassFile> hierarchy(ClassFile start) throws IOException {
    List<ClassFile> all = new ArrayList<>();
    Set<String> seen = new HashSet<>();
    Deque<String> interfaces = new ArrayDeque<>();
    for (Optional<ClassFile> c = Optional.of(start); c.isPresent(); c = parentOf(c.get())) {
      all.add(c.get());
      interfaces.addAll(c.get().interfaces());
    }
    while (!interfaces.isEmpty()) {
      String name = interfaces.poll();
      if (!seen.add(name)) continue;
      Optional<ClassFile> found = find(name);
      if (found.isEmpty()) continue;
      all.add(found.get());
      interfaces.addAll(found.get().interfaces());
    }
    return all;
  }

  private Optional<ClassFile> parentOf(ClassFile file) throws IOException {
    return file.superclass() == null ? Optional.empty() : find(file.superclass());
  }

  private boolean resolves(Reference reference) throws IOException {
    ClassFile owner = find(reference.owner()).orElseThrow();
    if (reference.member().name().equals("<init>")) return owner.members().contains(reference.member());
    for (ClassFile c : hierarchy(owner)) if (c.members().contains(reference.member())) return true;
    // Interfaces have Object's methods without inheriting from it.
    return find("java/lang/Object").orElseThrow().members().contains(reference.member());
  }

  private Set<Member> unimplemented(ClassFile file) throws IOException {
    Set<Member> needed = new HashSet<>();
    Set<Member> present = new HashSet<>();
    for (ClassFile c : hierarchy(file)) {
      needed.addAll(c.abstractMethods());
      for (Member m : c.members()) if (!c.abstractMethods().contains(m)) present.add(m);
    }
    present.addAll(find("java/lang/Object").orElseThrow().members());
    needed.removeAll(present);
    return needed;
  }

  /** Reads what {@link ClassFile} holds from the bytes of a class file (chapter 4 of the JVM specification). */
  static final class ClassFileReader {
    private static final int ACC_INTERFACE = 0x0200;
    private static final int ACC_ABSTRACT = 0x0400;

    private final DataInputStream in;
    private final Object[] pool;
    private final int[] tags;

    private ClassFileReader(byte[] bytes) throws IOException {
      in = new DataInputStream(new ByteArrayInputStream(bytes));
      if (in.readInt() != 0xCAFEBABE) throw new IOException("not a class file");
      in.readInt(); // version
      int count = in.readUnsignedShort();
      pool = new Object[count];
      tags = new int[count];
      for (int i = 1; i < count; i++) i += readConstant(i);
    }

    static ClassFile read(byte[] bytes) throws IOException {
      return new ClassFileReader(bytes).readClass();
    }

    /** Reads constant i; returns how many further entries it takes up. */
    private int readConstant(int i) throws IOException {
      tags[i] = in.readUnsignedByte();
      switch (tags[i]) {
        case 1 -> pool[i] = in.readUTF();
        case 3, 4 -> in.readInt();
        case 5, 6 -> {
          in.readLong();
          return 1;
        }
        case 7, 8, 16, 19, 20 -> pool[i] = in.readUnsignedShort();
        case 9, 10, 11, 12, 17, 18 -> pool[i] = new int[] {in.readUnsignedShort(), in.readUnsignedShort()};
        case 15 -> {
          in.readUnsignedByte();
          in.readUnsignedShort();
        }
        default -> throw new IOException("unknown constant tag " + tags[i]);
      }
      return 0;
    }

    private ClassFile readClass() throws IOException {
      int access = in.readUnsignedShort();
      String name = className(in.readUnsignedShort());
      int parent = in.readUnsignedShort();
      List<String> interfaces = new ArrayList<>();
      for (int n = in.readUnsignedShort(); n > 0; n--) interfaces.add(className(in.readUnsignedShort()));
      Set<Member> members = new HashSet<>();
      Set<Member> abstractMethods = new HashSet<>();
      readMembers(true, members, abstractMethods);
      readMembers(false, members, abstractMethods);
      return new ClassFile(
          name,
          (access & (ACC_INTERFACE | ACC_ABSTRACT)) == 0,
          parent == 0 ? null : className(parent),
          interfaces,
          members,
          abstractMethods,
          classes(),
          references());
    }

    private void readMembers(boolean fields, Set<Member> members, Set<Member> abstractMethods) throws IOException {
      for (int n = in.readUnsignedShort(); n > 0; n--) {
        int access = in.readUnsignedShort();
        Member member = new Member(fields, utf8(in.readUnsignedShort()), utf8(in.readUnsignedShort()));
        members.add(member);
        if (!fields && (access & ACC_ABSTRACT) != 0) abstractMethods.add(member);
        for (int attributes = in.readUnsignedShort(); attributes > 0; attributes--) {
          in.readUnsignedShort();
          in.skipNBytes(in.readInt());
        }
      }
    }

    private Set<String> classes() {
      Set<String> found = new TreeSet<>();
      for (int i = 1; i < pool.length; i++) if (tags[i] == 7) elementClass(className(i)).ifPresent(found::add);
      return found;
    }

    private Set<Reference> references() {
      Set<Reference> found = new HashSet<>();
      for (int i = 1; i < pool.length; i++) {
        if (tags[i] < 9 || tags[i] > 11) continue;
        int[] reference = (int[]) pool[i];
        int[] nameAndType = (int[]) pool[reference[1]];
        String owner = className(reference[0]);
        // Arrays have clone() and nothing else.
        if (!owner.startsWith("["))
          found.add(new Reference(owner, new Member(tags[i] == 9, utf8(nameAndType[0]), utf8(nameAndType[1]))));
      }
      return found;
    }

    /** The class that an array type is made of, nothing for an array of primitives; any other name as it is. */
    private static Optional<String> elementClass(String name) {
      if (!name.startsWith("[")) return Optional.of(name);
      String element = name.replaceFirst("^\\[+", "");
      return element.startsWith("L") ? Optional.of(element.substring(1, element.length() - 1)) : Optional.empty();
    }

    private String className(int index) {
      return utf8((Integer) pool[index]);
    }

    private String utf8(int index) {
      return (String) pool[index];
    }
  }
}

// Answers each connection with random numbers of the Java virtual machine, one "name value" a
// line. A connection that sends "hook" has what can be seeded seeded first.
import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.security.*;
import java.security.spec.ECGenParameterSpec;
import java.util.*;

public class Draw {
    static SecureRandom native_ = new SecureRandom(), drbg;
    static Random random = new Random();

    static String draw() throws Exception {
        byte[] a = new byte[16], b = new byte[16];
        native_.nextBytes(a);
        drbg.nextBytes(b);
        KeyPairGenerator g = KeyPairGenerator.getInstance("EC");
        g.initialize(new ECGenParameterSpec("secp256r1"));
        HexFormat hex = HexFormat.of();
        return "SecureRandom " + hex.formatHex(a) + "\nSecureRandom(DRBG) " + hex.formatHex(b)
            + "\nUUID.randomUUID " + UUID.randomUUID() + "\nKeyPairGenerator(EC) " + hex.formatHex(g.generateKeyPair().getPublic().getEncoded())
            + "\nMath.random " + Math.random() + "\nRandom " + random.nextLong() + "\n";
    }

    public static void main(String[] args) throws Exception {
        drbg = SecureRandom.getInstance("DRBG");
        draw();
        ServerSocket s = new ServerSocket(7304, 8, InetAddress.getByName("127.0.0.1"));
        Files.write(Path.of("java.ready"), new byte[0]);
        while (true) {
            try (Socket c = s.accept()) {
                String line = new BufferedReader(new InputStreamReader(c.getInputStream())).readLine();
                if ("hook".equals(line)) {
                    byte[] seed = new byte[32];
                    try (InputStream in = new FileInputStream("/dev/urandom")) {
                        in.readNBytes(seed, 0, seed.length);
                    }
                    native_.setSeed(seed);
                    drbg.setSeed(seed);
                    random.setSeed(new SecureRandom().nextLong());
                }
                c.getOutputStream().write(draw().getBytes());
            }
        }
    }
}

// One jar for Spark 4.1, 4.2 and 4.3: compiled against the oldest API that all three link with (docs/compatibility.md).
// `-Dspark.jars.dir=DIR` compiles against any distribution's jars instead of the published artifacts.
ThisBuild / scalaVersion := "2.13.18"
ThisBuild / organization := "org.dynamicfilters"
ThisBuild / version := IO.read(file("VERSION")).trim

// The POM. Maven Central wants `homepage` and `scmInfo` too, once there is a public repository (docs/release.md).
ThisBuild / description := "Dynamic filters for Apache Spark: scans skip files, row groups, pages and rows by what a " +
  "running query has learned"
ThisBuild / organizationName := "The spark-dynamic-filters developers"
ThisBuild / startYear := Some(2026)
ThisBuild / licenses := Seq("Apache-2.0" -> url("https://www.apache.org/licenses/LICENSE-2.0.txt"))
ThisBuild / versionScheme := Some("early-semver")

val sparkVersion = sys.props.getOrElse("spark.version", "4.2.0")
val sparkJars = sys.props.get("spark.jars.dir")
// protoc 4.33 and later generates code that fails on Spark 4.1's protobuf runtime.
val protocV = "4.29.3"

lazy val root = (project in file("."))
  .aggregate(jvm, faults)
  .settings(publish / skip := true)

// What the plugin and its faults for tests are compiled and tested with.
lazy val common = Seq(
  libraryDependencies ++= (if (sparkJars.isDefined) Nil
                           else
                             Seq(
                               "org.apache.spark" %% "spark-sql" % sparkVersion % Provided,
                               "org.apache.spark" %% "spark-connect" % sparkVersion % Provided
                             )),
  Compile / unmanagedJars ++= sparkJars.toSeq.flatMap(d => (file(d) ** "*.jar").classpath),
  libraryDependencies ++= Seq(
    "org.scalatest" %% "scalatest" % "3.2.19" % Test,
    "org.scalatestplus" %% "scalacheck-1-18" % "3.2.19.0" % Test
  ),
  scalacOptions ++= Seq(
    "-release",
    "17",
    "-deprecation",
    "-feature",
    "-unchecked",
    "-Wunused:imports,locals,privates",
    // A class that mixes in a trait of Spark would have a method for each of the trait's: of one version's signatures.
    "-Xmixin-force-forwarders:false",
    "-Werror"
  ),
  Test / fork := true,
  Test / javaOptions ++= Seq(
    "-Xmx2g",
    // Spark's generated code runs a few times here: compiling it well takes longer than it ever spares.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=256m",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED"
  )
)

lazy val jvm = (project in file("jvm")).settings(
  common,
  name := "spark-dynamic-filters",
  libraryDependencies += "com.google.protobuf" % "protobuf-java" % protocV % Provided,
  // Generated Java has warnings of its own.
  Compile / javacOptions ++= Seq("--release", "17"),
  Compile / PB.protoSources := Seq(baseDirectory.value / ".." / "proto"),
  Compile / PB.targets := Seq(PB.gens.java(protocV) -> (Compile / sourceManaged).value / "proto"),
  PB.protocVersion := protocV,
  PB.additionalDependencies := Nil,
  // What measures (make bench-coordinator) gets the JVM that users have.
  Test / run / javaOptions := (Test / javaOptions).value.filterNot(o => o.startsWith("-XX:")),
  Compile / resourceGenerators += Def.task {
    val f = (Compile / resourceManaged).value / "org" / "dynamicfilters" / "version.txt"
    IO.write(f, version.value)
    Seq(f)
  },
  Compile / resourceGenerators += Def.task {
    Seq("LICENSE", "NOTICE").map { name =>
      val f = (Compile / resourceManaged).value / "META-INF" / name
      IO.copyFile((ThisBuild / baseDirectory).value / name, f)
      f
    }
  },
  assembly / assemblyJarName := s"spark-dynamic-filters_2.13-${version.value}.jar",
  assembly / assemblyOption ~= { _.withIncludeScala(false) },
  assembly / test := {},
  assembly / assemblyMergeStrategy := {
    case PathList("META-INF", "LICENSE" | "NOTICE") => MergeStrategy.singleOrError
    case path => (assembly / assemblyMergeStrategy).value(path)
  },
  // The part that others extend. What it names of the rest is compiled already.
  Compile / doc / sources := (Compile / sources).value.filter(_.getParentFile.getName == "api"),
  Compile / doc / dependencyClasspath ++= (Compile / products).value.classpath,
  Compile / doc / scalacOptions -= "-Werror",
  // What is published is the assembled jar, whose protobuf is Spark Connect's.
  Compile / packageBin / publishArtifact := false,
  addArtifact(Artifact("spark-dynamic-filters"), assembly),
  publishMavenStyle := true,
  publishTo := Some(
    MavenCache(
      "folder",
      sys.props.get("maven.repository").fold(file(sys.props("user.home")) / ".m2" / "repository")(file)
    )
  ),
  // Spark Connect ships a relocated protobuf: generated classes are pointed at it, nothing is bundled.
  assembly / assemblyShadeRules := Seq(
    ShadeRule.rename("com.google.protobuf.**" -> "org.sparkproject.connect.protobuf.@1").inProject
  )
)

// A jar of its own, so that nothing of it is in an application that was not started for tests.
lazy val faults = (project in file("faults"))
  .dependsOn(jvm)
  .settings(common, name := "spark-dynamic-filters-faults", publish / skip := true, Compile / doc / sources := Nil)

// Spark's own compiled tests and what they need (tools/test_spark.py). The root does not aggregate it, so that no other
// command fetches these jars.
lazy val sparkTests = (project in file("build/spark-tests")).settings(
  publish / skip := true,
  libraryDependencies ++= Seq(
    "sql",
    "catalyst",
    "core",
    "sql-api",
    "common-utils",
    "common-utils-java",
    "tags",
    "network-common",
    "network-shuffle",
    "launcher"
  ).flatMap { module =>
    val main = "org.apache.spark" % s"spark-${module}_2.13" % sparkVersion
    Seq(main, main.classifier("tests"))
  },
  libraryDependencies ++= Seq(
    "org.apache.spark" %% "spark-connect" % sparkVersion,
    "org.scalatest" %% "scalatest" % "3.2.19",
    "org.scalatestplus" %% "scalacheck-1-18" % "3.2.19.0",
    "org.scalatestplus" %% "mockito-5-18" % "3.2.19.0",
    "org.mockito" % "mockito-core" % "5.23.0",
    // Spark's Java tests of sources assert by it.
    "org.junit.jupiter" % "junit-jupiter-api" % "5.13.4"
  )
)
